/* Search for pages opened from a file: browsers refuse workers there, so a hidden frame stands for one.
 * The theme's search asks for a Worker, sends it messages and listens; its script wants importScripts and postMessage. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      const here = new URL(address, location.href);
      const load = (name) => new Promise((done, failed) => {
        const script = inside.document.createElement("script");
        script.src = new URL(name, here).href;
        script.onload = done;
        script.onerror = failed;
        inside.document.body.appendChild(script);
      });
      inside.importScripts = (...names) => names.reduce((before, name) => before.then(() => load(name)), Promise.resolve());
      load(here.href).then(() => {
        this.ready = true;
        this.waiting.forEach((data) => this.send(data));
      });
    }
    send(data) {
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }
    postMessage(data) {
      if (this.ready) this.send(data);
      else this.waiting.push(data);
    }
    terminate() {
      this.frame.remove();
    }
  };
}
