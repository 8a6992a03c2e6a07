/** Lets Node load TypeScript: what jest's setupFiles names has to be a file of the project. */
import '@swc-node/register/esm-register';
