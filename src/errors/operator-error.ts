/** What keeps a program from running and whoever runs it can mend. It is told by its message alone, without a stack. */
export class OperatorError extends Error {}
