/** Lets Node load TypeScript, with its lines in stacks: what jest's setupFiles names has to be a file of the project. */
import '@swc-node/register/esm-register';

process.setSourceMapsEnabled(true);
