// The samples have an example's address; the page's own takes its place.
const own = new URL('../../v1', location.href).href;
for (const code of document.querySelectorAll('pre code')) {
  code.textContent = code.textContent.replaceAll('http://127.0.0.1:3000/v1', () => own);
}

// Browsers have a clipboard only for pages from https or from this machine. An output is not for copying.
if (navigator.clipboard !== undefined) {
  for (const code of document.querySelectorAll('pre code:not(.language-json, .language-text)')) {
    const button = document.createElement('button');
    button.className = 'copy';
    // Screen readers say it when it changes.
    button.ariaLive = 'polite';
    button.textContent = 'Copy';
    button.addEventListener('click', async () => {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = 'Copied';
      setTimeout(() => (button.textContent = 'Copy'), 2_000);
    });
    const sample = document.createElement('div');
    sample.className = 'sample';
    code.parentElement.replaceWith(sample);
    sample.append(button, code.parentElement);
  }
}
