// The door that JupyterLab knocks at: what a bundler would make, written by hand, so that nothing
// has to be built. It asks the application for the modules that it has loaded already.
(() => {
  const here = document.currentScript.src.replace(/[^/]*$/, '');
  const NEEDED = {
    apputils: '@jupyterlab/apputils',
    coreutils: '@jupyterlab/coreutils',
    json: '@lumino/coreutils',
    notebook: '@jupyterlab/notebook',
    services: '@jupyterlab/services',
    ui: '@jupyterlab/ui-components',
    widgets: '@lumino/widgets'
  };
  // Notebook 7 has no status bar and no shell that splits.
  const WELCOME = { application: '@jupyterlab/application', statusbar: '@jupyterlab/statusbar' };
  let scope = null;

  const newest = versions =>
    Object.keys(versions)
      .sort((a, b) => a.localeCompare(b, undefined, { numeric: true }))
      .pop();

  async function shared(name) {
    const versions = scope[name];
    if (!versions) {
      throw new Error(`rlmnb: this Jupyter does not share ${name}`);
    }
    return (await versions[newest(versions)].get())();
  }

  async function taken() {
    const found = {};
    for (const [key, name] of Object.entries(NEEDED)) {
      found[key] = await shared(name);
    }
    for (const [key, name] of Object.entries(WELCOME)) {
      found[key] = scope[name] ? await shared(name) : null;
    }
    return found;
  }

  function dress() {
    const link = document.createElement('link');
    link.rel = 'stylesheet';
    link.href = `${here}style.css`;
    document.head.appendChild(link);
  }

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB.rlmnb = {
    init: given => {
      scope = given;
    },
    get: async () => {
      const [jupyter, ours] = await Promise.all([taken(), import(`${here}index.js`)]);
      dress();
      const module = { __esModule: true, default: ours.plugins(jupyter) };
      return () => module;
    }
  };
})();
