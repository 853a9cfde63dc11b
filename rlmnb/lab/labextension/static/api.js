// What the server extension offers, under /rlmnb/api/, with Jupyter's own token and cookie.

/** An answer that is no, in words for a person. */
export class Refused extends Error {
  constructor(status, told) {
    super(told.message || told.reason || `the server answered ${status}`);
    this.status = status;
    this.hint = told.hint || '';
  }
}

export class Api {
  constructor({ ServerConnection }, { URLExt }) {
    this._make = ServerConnection.makeRequest;
    this._settings = ServerConnection.makeSettings();
    this._base = URLExt.join(this._settings.baseUrl, 'rlmnb/api');
  }

  status(path) {
    return this._json('status', { path });
  }

  graph(path) {
    return this._json('graph', { path, format: 'json' });
  }

  plan(path) {
    return this._post('plan', { path });
  }

  replay(path, wishes = {}) {
    return this._post('replay', { path, allow_effects: false, ...wishes });
  }

  stop(id) {
    return this._request(`replay/${encodeURIComponent(id)}`, {}, { method: 'DELETE' });
  }

  progress(id, signal) {
    return this._events(`replay/${encodeURIComponent(id)}`, {}, signal);
  }

  changes(path, signal) {
    return this._events('events', { path }, signal);
  }

  async _request(where, query, init = {}) {
    const asked = new URLSearchParams(query).toString();
    const url = `${this._base}/${where}${asked ? `?${asked}` : ''}`;
    const answer = await this._make(url, init, this._settings);
    if (!answer.ok) {
      throw new Refused(answer.status, await answer.json().catch(() => ({})));
    }
    return answer;
  }

  async _json(where, query) {
    return (await this._request(where, query)).json();
  }

  async _post(where, body) {
    const init = { method: 'POST', body: JSON.stringify(body) };
    return (await this._request(where, {}, init)).json();
  }

  /** Yield each event of a stream as [name, data]; EventSource could not send the token. */
  async *_events(where, query, signal) {
    const headers = { Accept: 'text/event-stream' };
    const answer = await this._request(where, query, { signal, headers, cache: 'no-store' });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) {
        return;
      }
      text = (text + value).replace(/\r\n/g, '\n');
      const blocks = text.split('\n\n');
      text = blocks.pop();
      for (const block of blocks) {
        const event = parsed(block);
        if (event) {
          yield event;
        }
      }
    }
  }
}

function parsed(block) {
  let name = 'message';
  const data = [];
  for (const line of block.split('\n')) {
    if (line.startsWith('event:')) {
      name = line.slice(6).trim();
    } else if (line.startsWith('data:')) {
      data.push(line.slice(5).trim());
    }
  }
  return data.length ? [name, JSON.parse(data.join('\n'))] : null;
}
