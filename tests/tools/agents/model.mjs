// A model in a few lines: it calls one tool, and then says "done". It speaks what the agents speak with models: the Messages API,
// Chat Completions and Responses, each as a stream, and that of Gemini.

import { createServer } from "node:http";

const json = (response, value) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify(value));
};

/** Server-sent events, with names where the interface has them. */
function stream(response, events) {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const event of events) {
        if (event.type) response.write(`event: ${event.type}\n`);
        response.write(`data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`);
    }
    response.end();
}

const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };

function messages(request, response, call, isDone) {
    const calls = !isDone('"tool_result"') && (request.tools ?? []).some(({ name }) => name === call.name);
    const block = calls ? { type: "tool_use", id: "toolu_1", name: call.name, input: {} } : { type: "text", text: "" };
    const delta = calls
        ? { type: "input_json_delta", partial_json: JSON.stringify(call.arguments) }
        : { type: "text_delta", text: "done" };
    const message = { id: "msg_1", type: "message", role: "assistant", model: request.model, content: [], stop_reason: null };
    stream(response, [
        { type: "message_start", message: { ...message, usage: { input_tokens: 1, output_tokens: 1 } } },
        { type: "content_block_start", index: 0, content_block: block },
        { type: "content_block_delta", index: 0, delta },
        { type: "content_block_stop", index: 0 },
        { type: "message_delta", delta: { stop_reason: calls ? "tool_use" : "end_turn" }, usage: { output_tokens: 1 } },
        { type: "message_stop" },
    ]);
}

function gemini(request, response, call, isDone, streamed) {
    const calls = !isDone('"functionResponse"') && JSON.stringify(request.tools ?? []).includes(`"${call.name}"`);
    const part = calls ? { functionCall: { name: call.name, args: call.arguments, id: "1" } } : { text: "done" };
    const candidates = [{ content: { role: "model", parts: [part] }, finishReason: "STOP", index: 0 }];
    const usageMetadata = { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 };
    const answer = { candidates, usageMetadata, modelVersion: "model" };
    return streamed ? stream(response, [answer]) : json(response, answer);
}

function completions(request, response, call, isDone) {
    const calls = !isDone('"role":"tool"') && (request.tools ?? []).some((tool) => tool.function?.name === call.name);
    const called = { name: call.name, arguments: JSON.stringify(call.arguments) };
    const said = calls
        ? { role: "assistant", content: null, tool_calls: [{ index: 0, id: "call_1", type: "function", function: called }] }
        : { role: "assistant", content: "done" };
    const reason = calls ? "tool_calls" : "stop";
    const base = { id: "c", created: 1, model: request.model };
    if (!request.stream) {
        const choices = [{ index: 0, message: said, finish_reason: reason }];
        return json(response, { ...base, object: "chat.completion", choices, usage });
    }
    const chunk = { ...base, object: "chat.completion.chunk" };
    return stream(response, [
        { ...chunk, choices: [{ index: 0, delta: said, finish_reason: null }] },
        { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: reason }], usage },
        "[DONE]",
    ]);
}

function responses(request, response, call, isDone) {
    const { name, namespace } = call;
    const calls = !isDone('call_output"') && JSON.stringify(request.tools ?? []).includes(`"${name}"`);
    const called = { type: "function_call", id: "fc_1", call_id: "call_1", name, ...(namespace && { namespace }) };
    const content = [{ type: "output_text", text: "done", annotations: [] }];
    const item = calls
        ? { ...called, arguments: JSON.stringify(call.arguments), status: "completed" }
        : { type: "message", id: "m_1", role: "assistant", status: "completed", content };
    const counted = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
    const whole = { id: "resp_1", object: "response", created_at: 1, model: request.model, status: "completed", usage: counted };
    stream(response, [
        { type: "response.created", response: { ...whole, status: "in_progress", output: [] } },
        { type: "response.output_item.done", output_index: 0, item },
        { type: "response.completed", response: { ...whole, output: [item] } },
    ]);
}

/** Serves the model on a free port. `call` names the tool, and its arguments. What the agent sends is in `requests`. */
export async function model(call) {
    const requests = [];
    const server = createServer(async (request, response) => {
        let text = "";
        for await (const part of request) text += part;
        const asked = text.startsWith("{") ? JSON.parse(text) : {};
        const { url } = request;
        // What was said so far; the list of tools is no part of it.
        const said = JSON.stringify(asked.messages ?? asked.contents ?? asked.input ?? []);
        const isDone = (mark) => said.includes(mark);
        requests.push(said);
        if (url.includes("count_tokens")) return json(response, { input_tokens: 1 });
        if (url.includes("/messages")) return messages(asked, response, call, isDone);
        if (url.includes("enerateContent")) return gemini(asked, response, call, isDone, url.includes(":stream"));
        if (url.includes("/chat/completions")) return completions(asked, response, call, isDone);
        if (url.includes("/responses")) return responses(asked, response, call, isDone);
        return json(response, {});
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    return { url: `http://127.0.0.1:${server.address().port}`, requests, close: () => server.close() };
}
