//! The tools and resources of the gateway in the lists of a server.

use bytes::Bytes;
use lro_host::mcp::{
    self, ListedTool, METHOD_NOT_FOUND, Message, OUTPUTS_REVISION, SchemaChange, TaskSupport, ToolChange,
};

use super::job::tool::{self, JOBS_TEMPLATE};
use super::job::{JOB_TOOL, task};
use super::own::guidance;
use super::pending::{Call, RequestKind};
use super::{Session, arguments, ask, description, intercept};
use crate::settings::{DecisionMode, JobMode, SchemaStrategy};
use crate::tenants::caches::{TASKS_REQUIRED, ToolFact};

impl Session {
    /// Adds the gateway's tools and resources to a server's lists and capabilities.
    pub(super) fn with_own_items(&self, call: &Call, message: &Message) -> Bytes {
        let Call { kind, modern, .. } = call;
        let modern = *modern;
        if matches!(kind, RequestKind::Tools { .. }) {
            self.learn_tools(message);
            message.result().iter().for_each(|result| self.rules.metrics.listed(result));
        }
        if !self.rules.enabled() || self.rules.audits() {
            return message.bytes().clone();
        }
        if !self.rules.announces() {
            // Without a store nothing can be read back, but results can still be truncated.
            return match kind {
                RequestKind::Tools { .. } => self.tools(message, call, false),
                _ => message.bytes().clone(),
            };
        }
        let missing = message.error_code() == Some(i64::from(METHOD_NOT_FOUND));
        let config = &self.rules.config;
        let of_jobs = config.has_jobs().then_some(JOBS_TEMPLATE);
        let of_tools = config.description_limit.map(|_| description::TEMPLATE);
        let templates = [Some(mcp::TEMPLATE), of_jobs, of_tools].into_iter().flatten().collect::<Vec<_>>().join(",");
        let response = |members: String| {
            let result = if modern {
                format!(r#"{{{members},"ttlMs":0,"cacheScope":"private"}}"#)
            } else {
                format!("{{{members}}}")
            };
            let response = |id| mcp::response(&id, &mcp::with_result_type(result, modern));
            message.id().map_or_else(|| message.bytes().clone(), response)
        };
        match kind {
            RequestKind::Handshake | RequestKind::Discovery if message.result().is_some() => {
                let has_jobs = self.rules.config.has_jobs();
                let tasks = match kind {
                    _ if !self.has_tasks(call) => None,
                    RequestKind::Discovery => Some(TaskSupport::Extension),
                    _ => self.asks_for_tasks().then_some(TaskSupport::Capability),
                };
                let mut answer = mcp::with_capabilities(message, &guidance(has_jobs), has_jobs, tasks);
                if self.rules.config.gateway.interceptor {
                    answer = mcp::with_extension(&Message::read(answer), intercept::EXTENSION, intercept::SUPPORT);
                }
                if self.rules.gives_outputs() {
                    answer = mcp::with_revision(&Message::read(answer), OUTPUTS_REVISION);
                }
                answer
            }
            RequestKind::Tools { first_page } => {
                if missing {
                    let tools = self.definitions(call).join(",");
                    return response(format!(r#""tools":[{tools}]"#));
                }
                self.tools(message, call, *first_page)
            }
            RequestKind::Templates { first_page: true } => {
                if missing {
                    return response(format!(r#""resourceTemplates":[{templates}]"#));
                }
                mcp::with_items(message, "resourceTemplates", &[templates])
            }
            RequestKind::Resources if missing => response(r#""resources":[]"#.to_owned()),
            _ => message.bytes().clone(),
        }
    }

    /// Whether the client knows tasks as a part of the protocol: it asked for revision 2025-11-25.
    fn asks_for_tasks(&self) -> bool {
        let handshake = self.handshake().map(|(request, _)| Message::read(request));
        handshake.is_some_and(|request| task::asks_for_revision(&request))
    }

    fn tools(&self, message: &Message, call: &Call, first_page: bool) -> Bytes {
        let client = &call.client;
        let listed = mcp::listed_tools(message);
        let config = &self.rules.config;
        let is_own = |name: &str| mcp::reads_offloads(name) || (name == JOB_TOOL && config.has_jobs());
        if listed.iter().any(|tool| is_own(&tool.name)) {
            self.rules.set_name_conflict();
        }
        let has_tasks = !call.modern && self.has_tasks(call) && self.asks_for_tasks();
        let question = self.rules.announces().then_some((ask::ARGUMENT, self.rules.question_schema.as_str()));
        let description_limit = self.description_limit();
        description_limit.iter().for_each(|limit| self.keep_descriptions(&listed, *limit));
        let change = |listed: &ListedTool<'_>| {
            let name = listed.name.as_ref();
            let tool = config.gateway_tool(name);
            let description = description_limit.and_then(|limit| self.short_description(listed, limit));
            let is_exempt = config.for_tool(name).mode == DecisionMode::Never;
            let schema = match tool.schema {
                // The result of a call that became a job is replaced too.
                _ if is_exempt && !tool.has_jobs() => SchemaChange::Keep,
                SchemaStrategy::Rewrite => SchemaChange::Widen,
                SchemaStrategy::Strip => SchemaChange::Remove,
                SchemaStrategy::Shape | SchemaStrategy::Block => SchemaChange::Keep,
            };
            let tasks = has_tasks && tool.job.map_or(call.knows_tasks, |job| job != JobMode::Never);
            let rules = arguments::rules(self, name);
            let outputs = call.outputs.is_some();
            let (argument, result_characters) = match is_exempt {
                true => (None, None),
                false => (question.filter(|_| tool.ask), config.declared_size(name, client)),
            };
            ToolChange { schema, result_characters, argument, rules, tasks, description, outputs }
        };
        let adds_own = first_page && !self.rules.has_name_conflict();
        let more = if adds_own { self.definitions(call) } else { Vec::new() };
        mcp::with_tools(message, change, &more)
    }

    /// Keeps the schemas of the listed tools: of arguments for the policy, of output for tools that keep its shape.
    fn learn_tools(&self, message: &Message) {
        let config = &self.rules.config;
        let listed = mcp::listed_tools(message);
        listed.iter().for_each(|tool| {
            tool.input_schema.iter().for_each(|schema| arguments::check(self, &tool.name, schema));
        });
        let facts = listed.iter().flat_map(|tool| {
            let tool_settings = config.gateway_tool(&tool.name);
            let keeps_shape = tool_settings.schema == SchemaStrategy::Shape;
            let output = tool.output_schema.filter(|_| keeps_shape).map(|schema| (ToolFact::OutputSchema, schema));
            let input = tool.input_schema.map(|schema| (ToolFact::InputSchema, schema));
            let runs_tasks: &[u8] = match (tool.requires_tasks, tool.runs_tasks) {
                (true, _) => TASKS_REQUIRED,
                (false, true) => b"true",
                (false, false) => b"false",
            };
            let tasks = (tool_settings.job != Some(JobMode::Never)).then_some((ToolFact::RunsTasks, runs_tasks));
            let is_structured: &[u8] = if tool.output_schema.is_some() { b"true" } else { b"false" };
            let structured = self.rules.gives_outputs().then_some((ToolFact::HasOutput, is_structured));
            let of_tool = input.into_iter().chain(output).chain(tasks).chain(structured);
            of_tool.map(|(kind, fact)| ((kind, tool.name.as_ref().to_owned()), fact))
        });
        self.rules.caches.learn(&self.owner.tenant, facts);
    }

    /// The definitions of the gateway's tools for the client of a call. The model chooses the length of their results.
    fn definitions(&self, call: &Call) -> Vec<String> {
        let jobs = self.rules.config.has_jobs().then(tool::definition);
        let definitions = self.rules.definitions.iter().cloned().chain(jobs);
        let sized = definitions.map(|tool| match call.client.declared_size {
            Some(size) => mcp::with_result_characters(&tool, size),
            None => tool,
        });
        sized.map(|tool| if call.outputs.is_some() { mcp::with_outputs(&tool) } else { tool }).collect()
    }
}
