// The samples of a guide have an example's address; this puts the page's own in its place.

const own = new URL('../../v1', location.href).href;
for (const code of document.querySelectorAll('pre code')) {
  code.textContent = code.textContent.replaceAll('http://127.0.0.1:3000/v1', own);
}
