'use strict';
// The page's program: one conversation over /v1/chat/completions, and the server's numbers from /v1/info. Text of the model is only
// ever set as text, never as markup.
const byId = (id) => document.getElementById(id);
let history = [];        // messages as the API takes them; another list for every chat
let running = null;      // AbortController of the answer being written
let model = null;
let before = null;       // the numbers of the poll before

function element(parent, tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

function headers() {
  const out = {'Content-Type': 'application/json'};
  if (byId('key').value) out.Authorization = 'Bearer ' + byId('key').value;
  return out;
}

/** The error message of a response that is none of success, or a line that says what happened. */
async function complaint(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return 'the server answered ' + response.status;
  }
}

/** Calls take(object) for each data event until the stream ends. */
async function readEvents(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let held = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    held += value;
    for (let end; (end = held.indexOf('\n\n')) >= 0; held = held.slice(end + 2)) {
      const event = held.slice(0, end);
      if (event.startsWith('data: ') && event !== 'data: [DONE]') take(JSON.parse(event.slice(6)));
    }
  }
}

/** One answer on the page: text, folded reasoning, calls, and a line of facts. */
class Answer {
  constructor() {
    this.node = element(byId('messages'), 'article', 'message assistant');
    this.reasoning = null;
    this.text = element(this.node, 'div', 'text');
    this.calls = [];
    this.start = performance.now();
    this.first = 0;
    this.content = '';
    this.thought = '';
    this.usage = null;
  }
  take(chunk) {
    if (chunk.error) throw new Error(chunk.error.message);
    if (chunk.usage) this.usage = chunk.usage;
    for (const choice of chunk.choices) this.takeDelta(choice.delta);
  }
  takeDelta(delta) {
    const thought = delta.reasoning_content || delta.reasoning || '';
    if (!this.first && (thought || delta.content || delta.tool_calls)) this.first = performance.now();
    if (thought) {
      if (!this.reasoning) {
        const fold = document.createElement('details');
        this.node.insertBefore(fold, this.text);
        element(fold, 'summary', '', 'Reasoning');
        this.reasoning = element(fold, 'div', 'text');
      }
      this.thought += thought;
      this.reasoning.textContent = this.thought;
    }
    if (delta.content) {
      this.content += delta.content;
      this.text.textContent = this.content;
    }
    for (const call of delta.tool_calls || []) {
      this.calls[call.index] ||= element(this.node, 'div', 'call');
      this.calls[call.index].textContent += (call.function.name ? call.function.name + ' ' : '') + (call.function.arguments || '');
    }
  }
  facts(note) {
    const parts = [];
    if (this.usage) {
      const tokens = this.usage.completion_tokens;
      const seconds = (performance.now() - this.first) / 1000;
      parts.push(tokens + ' tokens');
      if (tokens > 1 && this.first && seconds > 0) parts.push(((tokens - 1) / seconds).toFixed(1) + ' tokens/s');
      if (this.first) parts.push('first after ' + ((this.first - this.start) / 1000).toFixed(2) + ' s');
      const cached = this.usage.prompt_tokens_details?.cached_tokens || 0;
      parts.push(cached + ' of ' + this.usage.prompt_tokens + ' prompt tokens cached');
      const details = this.usage.completion_tokens_details || {};
      const drafts = (details.accepted_prediction_tokens || 0) + (details.rejected_prediction_tokens || 0);
      if (drafts) parts.push(details.accepted_prediction_tokens + ' of ' + drafts + ' drafts accepted');
    }
    if (note) parts.push(note);
    if (parts.length) element(this.node, 'p', 'facts', parts.join(' · '));
  }
}

function body() {
  const out = {messages: [...history], stream: true, stream_options: {include_usage: true}};
  if (byId('system').value) out.messages.unshift({role: 'system', content: byId('system').value});
  if (byId('temperature').value) out.temperature = Number(byId('temperature').value);
  if (byId('limit').value) out.max_completion_tokens = Number(byId('limit').value);
  return JSON.stringify(out);
}

function busy(on) {
  byId('send').hidden = on;
  byId('stop').hidden = !on;
}

/** Keeps the newest text in sight unless the reader has scrolled up. */
function follow(act) {
  const list = byId('messages');
  const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 60;
  act();
  if (atEnd) list.scrollTop = list.scrollHeight;
}

async function ask(text) {
  const chat = history;
  byId('hint')?.remove();
  const own = element(byId('messages'), 'article', 'message user');
  element(own, 'div', 'text', text);
  chat.push({role: 'user', content: text});
  let answer = null;
  follow(() => { answer = new Answer(); });
  byId('messages').scrollTop = byId('messages').scrollHeight;
  const control = running = new AbortController();
  busy(true);
  let note = '';
  try {
    const response = await fetch('v1/chat/completions', {method: 'POST', headers: headers(), body: body(), signal: control.signal});
    if (!response.ok) throw new Error(await complaint(response));
    await readEvents(response.body, (chunk) => follow(() => answer.take(chunk)));
  } catch (error) {
    if (error.name === 'AbortError') note = 'stopped';
    else element(answer.node, 'p', 'error', error.message);
  }
  if (running === control) running = null;
  busy(running !== null);
  follow(() => answer.facts(note));
  if (answer.content)
    chat.push({role: 'assistant', content: answer.content});
  else
    chat.pop();  // nothing to go on from: the question may be asked again
}

function share(bar, parts, total) {
  [...byId(bar).children].forEach((node, i) => { node.style.width = (total ? 100 * parts[i] / total : 0) + '%'; });
}

function show(info) {
  const engine = info.engine;
  model = info.model.names[0];
  byId('model').textContent = model + ' · ' + info.model.context_length + ' tokens of context';
  byId('running').textContent = engine.running;
  byId('waiting').textContent = engine.waiting;
  byId('slots-text').textContent = engine.running + ' of ' + engine.max_num_seqs;
  share('slots', [engine.running], engine.max_num_seqs);
  byId('cache-text').textContent =
      engine.blocks_used + ' used, ' + engine.blocks_cached + ' kept of ' + engine.blocks;
  share('cache', [engine.blocks_used, engine.blocks_cached], engine.blocks);
  byId('hits').textContent = engine.prefix_queries_tokens
      ? (100 * engine.prefix_hit_tokens / engine.prefix_queries_tokens).toFixed(0) + ' %' : '–';
  byId('acceptance').textContent = engine.drafts ? (1 + engine.accepted_tokens / engine.drafts).toFixed(2) : 'no drafts';
  const now = {at: performance.now(), tokens: engine.generated_tokens};
  if (before) byId('speed').textContent = (1000 * (now.tokens - before.tokens) / (now.at - before.at)).toFixed(1);
  before = now;
}

function state(text, kind) {
  byId('state').textContent = text;
  byId('state').className = 'pill ' + kind;
}

async function poll() {
  try {
    const response = await fetch('v1/info', {headers: headers()});
    if (response.ok) {
      show(await response.json());
      state('ready', 'ready');
    } else if (response.status === 401) {
      state('API key needed', 'bad');
      byId('settings').open = true;
    } else {
      state((await (await fetch('health')).json()).status, 'bad');
    }
  } catch {
    state('no answer', 'bad');
  }
  setTimeout(poll, 1000);
}

byId('form').addEventListener('submit', (event) => {
  event.preventDefault();
  const text = byId('input').value.trim();
  if (!text || running) return;
  byId('input').value = '';
  ask(text);
});
byId('input').addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId('form').requestSubmit();
});
byId('stop').addEventListener('click', () => running?.abort());
for (const form of document.querySelectorAll('#settings form')) form.addEventListener('submit', (event) => event.preventDefault());
byId('new').addEventListener('click', () => {
  running?.abort();
  history = [];
  byId('messages').replaceChildren();
  byId('input').focus();
});
byId('key').value = sessionStorage.getItem('slipstream-key') || '';
byId('key').addEventListener('change', () => sessionStorage.setItem('slipstream-key', byId('key').value));
byId('input').focus();
poll();
