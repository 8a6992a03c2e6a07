/** What ES modules lack: the variable `jest`. */
Object.assign(globalThis, { jest: import.meta.jest });
