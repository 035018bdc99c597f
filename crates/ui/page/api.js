// @ts-check
// Questions to the server: JSON-RPC 2.0 over one WebSocket. Requests run in parallel, can be cancelled, may report progress. What is asked
// about a moment never changes, so that answers are kept: going back is instant.

/** Answers that are kept. */
const KEPT = 600;

/** Methods whose answers can change. */
const CHANGING = /^notebook\.|^run\.info$/;

export class ApiError extends Error {
  /**
   * @param {number} code
   * @param {string} message
   * @param {string} [kind]
   */
  constructor(code, message, kind) {
    super(message);
    this.code = code;
    this.kind = kind;
  }
}

/** Nobody wants the answer any more. */
export class Cancelled extends Error {}

/** The connection is gone; the question can be asked again. */
export class Disconnected extends Error {}

/**
 * @typedef {{signal?: AbortSignal, onProgress?: (done: number, total: number | null) => void}} AskOptions
 * @typedef {{resolve: (value: any) => void, reject: (error: Error) => void, onProgress?: AskOptions["onProgress"]}} Pending
 */

export class Api {
  /** @param {string} token */
  constructor(token) {
    this.token = token;
    /** @type {Map<number, Pending>} */
    this.pending = new Map();
    /** @type {Map<string, any>} */
    this.kept = new Map();
    this.nextId = 1;
    this.pause = 250;
    /** @type {WebSocket | undefined} */
    this.socket = undefined;
    /** @type {(state: "open" | "closed", wasOpen: boolean) => void} */
    this.onState = () => {};
    this.wasOpen = false;
    this.waiting = [];
  }

  connect() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const query = this.token ? `?token=${encodeURIComponent(this.token)}` : "";
    const socket = new WebSocket(`${scheme}//${location.host}/ws${query}`);
    this.socket = socket;
    socket.onopen = () => {
      this.pause = 250;
      this.onState("open", this.wasOpen);
      this.wasOpen = true;
      for (const text of this.waiting.splice(0)) socket.send(text);
    };
    socket.onmessage = (event) => this.receive(JSON.parse(event.data));
    socket.onclose = () => {
      for (const { reject } of this.pending.values()) reject(new Disconnected("the connection is lost"));
      this.pending.clear();
      this.waiting.length = 0;
      this.onState("closed", this.wasOpen);
      setTimeout(() => this.connect(), this.pause);
      this.pause = Math.min(this.pause * 2, 5000);
    };
  }

  /**
   * Asks a question.
   * @param {string} method
   * @param {object} params
   * @param {AskOptions} [options]
   * @returns {Promise<any>}
   */
  ask(method, params, options = {}) {
    const { signal, onProgress } = options;
    if (signal?.aborted) return Promise.reject(new Cancelled());
    const key = CHANGING.test(method) ? undefined : method + JSON.stringify(params);
    if (key !== undefined && this.kept.has(key)) {
      const answer = this.kept.get(key);
      this.kept.delete(key);
      this.kept.set(key, answer);
      return Promise.resolve(answer);
    }
    const id = this.nextId++;
    const sent = onProgress ? { ...params, progressToken: id } : params;
    return new Promise((resolve, reject) => {
      const cancel = () => {
        if (this.pending.delete(id)) this.send({ jsonrpc: "2.0", method: "$/cancel", params: { id } });
        reject(new Cancelled());
      };
      const done = () => signal?.removeEventListener("abort", cancel);
      signal?.addEventListener("abort", cancel, { once: true });
      this.pending.set(id, {
        resolve: (answer) => {
          done();
          if (key !== undefined) this.keep(key, answer);
          resolve(answer);
        },
        reject: (error) => {
          done();
          reject(error);
        },
        onProgress,
      });
      this.send({ jsonrpc: "2.0", id, method, params: sent });
    });
  }

  /** @param {object} message */
  send(message) {
    const text = JSON.stringify(message);
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(text);
    else this.waiting.push(text);
  }

  /** @param {any} message */
  receive(message) {
    if (message.method === "$/progress") {
      const { token, done, total } = message.params;
      this.pending.get(token)?.onProgress?.(done, total);
      return;
    }
    const pending = this.pending.get(message.id);
    if (!pending) return;
    this.pending.delete(message.id);
    if (message.error) {
      pending.reject(new ApiError(message.error.code, message.error.message, message.error.data?.kind));
    } else {
      pending.resolve(message.result);
    }
  }

  /**
   * @param {string} key
   * @param {any} answer
   */
  keep(key, answer) {
    this.kept.set(key, answer);
    if (this.kept.size > KEPT) this.kept.delete(/** @type {string} */ (this.kept.keys().next().value));
  }
}

/**
 * The token: from the address, where it is removed, or as this tab has kept it.
 * @returns {string}
 */
export function takeToken() {
  const hash = new URLSearchParams(location.hash.slice(1));
  const token = hash.get("token");
  if (token !== null) {
    sessionStorage.setItem("token", token);
    hash.delete("token");
    const rest = hash.toString();
    history.replaceState(null, "", location.pathname + (rest ? "#" + rest : ""));
  }
  return sessionStorage.getItem("token") ?? "";
}
