// Search on pages opened from the disk, where browsers refuse workers: the worker's script runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.inside = frame.contentWindow
      window.addEventListener("message", event => {
        if (event.source !== this.inside) return
        this.dispatchEvent(new MessageEvent("message", { data: event.data }))
        if (this.onmessage) this.onmessage(event)
      })
      // The scripts that the worker asks for are loaded one after the other.
      const prelude = `
        window.postMessage = message => parent.dispatchEvent(new MessageEvent("message", { data: message, source: window }))
        window.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise(resolve => {
          const script = document.createElement("script")
          script.src = url
          script.onload = resolve
          document.head.appendChild(script)
        })), Promise.resolve())`
      const page = this.inside.document
      page.open()
      page.write(`<html><head></head><body><script>${prelude}<\/script><script src="${url}"><\/script></body></html>`)
      page.close()
      this.ready = new Promise(resolve => this.inside.addEventListener("load", resolve))
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.inside.frameElement.remove()
    }
  }
}
