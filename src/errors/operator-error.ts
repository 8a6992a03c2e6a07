/** An error that whoever runs the program can fix. Its message alone is printed, without a stack. */
export class OperatorError extends Error {}
