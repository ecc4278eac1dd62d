"use strict";

const kNumbers = ["max_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed"];
const kQueuePeriodMs = 2000;
const at = (id) => document.getElementById(id);

const conversation = [];  // {role, content}, without the system message
let running = null;       // AbortController of the current request; null: none

function headers() {
  const key = at("key").value;
  return {"Content-Type": "application/json", ...(key ? {Authorization: `Bearer ${key}`} : {})};
}

function show(kind, text) {
  const paragraph = document.createElement("p");
  paragraph.className = kind;
  paragraph.textContent = text;
  at("log").append(paragraph);
  paragraph.scrollIntoView({block: "end"});
  return paragraph;
}

function request() {
  const system = at("system").value;
  const body = {messages: system ? [{role: "system", content: system}, ...conversation] : conversation};
  for (const name of kNumbers) {
    if (at(name).value !== "") body[name] = Number(at(name).value);
  }
  return {...body, stream: true, stream_options: {include_usage: true}};
}

// Yields the JSON of each server-sent event as it arrives.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      if (part !== "data: [DONE]") yield JSON.parse(part.slice("data: ".length));
    }
  }
}

async function failure(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `the server answered with status ${response.status}`;
  }
}

// The paragraph with the reasoning that leads to the answer in `paragraph`; made where there is none.
function reasoningBefore(paragraph) {
  if (paragraph.previousElementSibling?.className !== "reasoning") {
    const reasoning = document.createElement("p");
    reasoning.className = "reasoning";
    paragraph.before(reasoning);
  }
  return paragraph.previousElementSibling;
}

// Appends the answer's text to `paragraph`, and its reasoning before it. Returns the number of tokens and the seconds since the first one.
async function receive(response, paragraph) {
  let begin = 0, pieces = 0, tokens = null;
  for await (const event of events(response)) {
    if (event.error) throw new Error(event.error.message);
    if (event.usage) tokens = event.usage.completion_tokens;
    const {content, reasoning_content: reasoning} = event.choices[0]?.delta ?? {};
    if (!content && !reasoning) continue;
    if (++pieces === 1) begin = performance.now();
    if (reasoning) reasoningBefore(paragraph).textContent += reasoning;
    if (content) paragraph.textContent += content;
    paragraph.scrollIntoView({block: "end"});
  }
  return {tokens: tokens ?? pieces, seconds: (performance.now() - begin) / 1000};
}

function busy(controller) {
  running = controller;
  at("send").disabled = controller !== null;
  at("stop").disabled = controller === null;
}

async function ask(text) {
  conversation.push({role: "user", content: text});
  show("user", text);
  const paragraph = show("assistant", "");
  busy(new AbortController());
  at("speed").textContent = "";
  try {
    const response = await fetch("/v1/chat/completions",
                                 {method: "POST", headers: headers(), body: JSON.stringify(request()), signal: running.signal});
    if (!response.ok) throw new Error(await failure(response));
    const {tokens, seconds} = await receive(response, paragraph);
    const rate = tokens > 1 && seconds > 0 ? `, ${((tokens - 1) / seconds).toFixed(1)} tokens/s` : "";
    at("speed").textContent = `${tokens} tokens${rate}`;
  } catch (error) {
    if (error.name === "AbortError") at("speed").textContent = "stopped";
    else show("error", error.message);
  }
  if (paragraph.textContent === "") {
    paragraph.remove();
    conversation.pop();
  } else {
    conversation.push({role: "assistant", content: paragraph.textContent});
  }
  busy(null);
}

function clear() {
  running?.abort();
  conversation.length = 0;
  at("log").replaceChildren();
  at("speed").textContent = "";
  at("text").focus();
}

async function updateStatus() {
  try {
    const text = await (await fetch("/metrics")).text();
    const value = (name) => Number(text.match(new RegExp(`^serval:${name}\\{.*\\} (.*)$`, "m"))[1]);
    const model = text.match(/model_name="([^"]*)"/)[1];
    at("model").textContent = model || "Serval";
    at("queue").textContent = `${value("num_requests_running")} running, ${value("num_requests_waiting")} waiting`;
  } catch {
    at("queue").textContent = "the server does not answer";
  }
}

function send() {
  const text = at("text").value.trim();
  if (text === "" || running) return;
  at("text").value = "";
  ask(text);
}

at("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
at("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") running?.abort();
});
at("stop").addEventListener("click", () => running?.abort());
at("clear").addEventListener("click", clear);
at("key").value = sessionStorage.getItem("key") ?? "";
at("key").addEventListener("change", () => sessionStorage.setItem("key", at("key").value));
at("text").focus();
updateStatus();
setInterval(updateStatus, kQueuePeriodMs);
