/** Jest's resolver, which finds TypeScript's files by the names that they are compiled to. */
module.exports = (path, options) => {
  const find = (name) => options.defaultResolver(name, options);
  if (/^\.{1,2}\/.*\.js$/.test(path) && !options.basedir.includes('/node_modules')) {
    try {
      return find(path.replace(/js$/, 'ts'));
    } catch {
      // It is JavaScript, or not there.
    }
  }
  return find(path);
};
