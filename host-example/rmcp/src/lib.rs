//! Large results of the tools of a server on `rmcp`, the official SDK for Rust, become files and a short descriptor.
//!
//! [`Offloading`] wraps a server, any `ServerHandler`. A policy decides on each result of a tool, as it does in `lro gateway`: it
//! passes, is offloaded, truncated or refused. The client also gets the tools `lro_extract` and `lro_read`, instructions about
//! them, and the resources `lro://HANDLE/SECTION`, with which it asks about what was offloaded and reads it.
//!
//! ```no_run
//! use lro_host::extract::Extractor;
//! use lro_host::filter::Filter;
//! use lro_host::policy::{DEFAULT_POLICY, LoadOptions, Policy};
//! use lro_host::sandbox::{Limits, Sandbox};
//! use lro_host::settings::FailureMode;
//! use lro_host::store::{Store, StoreConfig};
//! use lro_rmcp::Offloading;
//! use rmcp::{ServerHandler, ServiceExt};
//!
//! # async fn serve(server: impl ServerHandler) -> Result<(), Box<dyn std::error::Error>> {
//! let sandbox = Sandbox::new()?;
//! let store = Store::open(StoreConfig::new("/var/lib/offloads"))?;
//! let filter = Filter {
//!     slot: Policy::from_bytes(&sandbox, DEFAULT_POLICY, &LoadOptions::default())?.into(),
//!     store: Ok(store.clone()),
//!     limits: Limits::default(),
//!     failure: FailureMode::Open,
//!     documents: None,
//! };
//! let extractor = Extractor::new(&sandbox, None, Limits::default())?;
//! let server = Offloading::new(server, filter, store, extractor);
//! # let transport = tokio::io::duplex(64).0;
//! server.serve(transport).await?.waiting().await?;
//! # Ok(())
//! # }
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use lro_host::extract::{Budget, Extractor};
use lro_host::filter::{Filter, Outcome, Request};
use lro_host::mcp::{self, SchemaChange, ToolResult, Tools};
use lro_host::sandbox::types::Abilities;
use lro_host::settings::PolicySettings;
use lro_host::store::Store;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientRequest, ErrorCode, ErrorData, ListResourceTemplatesResult,
    ListToolsResult, ProtocolVersion, ReadResourceRequestParams, ReadResourceResult, ResultType, ServerCapabilities,
    ServerConfig, ServerResult,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, Service, ServiceRole};

/// Beginning of the URIs of offloads.
const URI: &str = "lro://";

/// A server whose large results are offloaded. It is served as the server in it.
#[derive(Debug)]
pub struct Offloading<S> {
    server: S,
    filter: Filter,
    tools: Tools,
    request: Request,
}

impl<S> Offloading<S> {
    /// Wraps a server. `filter` writes to `store`, and `extractor` answers questions about what is there.
    ///
    /// Results belong to the tenant `default`, and have the default settings. Their reader has the tools, and no shell.
    pub fn new(server: S, filter: Filter, store: Store, extractor: Extractor) -> Self {
        let tools = Tools::new(store, extractor, Budget::default());
        let abilities = Abilities::EXTRACT_TOOL | Abilities::READ_TOOL;
        Self { server, filter, tools, request: Request { abilities, ..Request::new("default", "") } }
    }

    /// With other settings for the results of all tools.
    #[must_use]
    pub fn with_settings(mut self, settings: PolicySettings) -> Self {
        self.request.settings = Arc::new(settings);
        self
    }

    /// For another tenant: its offloads are in a directory of its own, and it reads no others.
    #[must_use]
    pub fn with_tenant(mut self, tenant: impl Into<String>) -> Self {
        self.request.tenant = tenant.into();
        self
    }

    /// For a client that has a shell on this machine, as is usual over standard streams: descriptors name paths and commands.
    #[must_use]
    pub fn with_shell(mut self) -> Self {
        self.request.abilities |= Abilities::SHELL;
        self
    }

    /// What becomes of the result of a call.
    async fn filtered(&self, request: Request, result: CallToolResult) -> CallToolResult {
        let parsed = serde_json::to_vec(&result).ok().map(Bytes::from).map(ToolResult::parse);
        let Some(Ok(parsed)) = parsed else { return result };
        if parsed.not_for_policy() {
            return result;
        }
        let tool = request.tool.clone();
        let request = Request { is_error: parsed.is_error(), ..request };
        let decision = self.filter.apply_async(request, Arc::clone(parsed.payload())).await;
        if let Some(error) = &decision.failure {
            tracing::warn!(tool, error = error as &dyn std::error::Error, "the policy failed");
        }
        if matches!(decision.outcome, Outcome::Pass) {
            return result;
        }
        let result_type = result.result_type.clone();
        match serde_json::from_slice::<CallToolResult>(&mcp::answer(&parsed, &decision.outcome)) {
            Ok(mut answer) => {
                answer.result_type = result_type;
                answer
            }
            Err(error) => {
                CallToolResult::error(vec![rmcp::model::ContentBlock::text(format!("the result is lost: {error}"))])
            }
        }
    }

    /// The result of a call of one of the tools that read offloads.
    async fn call(&self, call: CallToolRequestParams, modern: bool) -> Result<ServerResult, ErrorData> {
        let arguments = serde_json::Value::Object(call.arguments.unwrap_or_default()).to_string();
        let (tools, tenant) = (self.tools.clone(), self.request.tenant.clone());
        let answer = tokio::task::spawn_blocking(move || tools.call(&tenant, &call.name, &arguments)).await;
        let mut result: CallToolResult = read(answer)?;
        result.result_type = modern.then_some(ResultType::COMPLETE);
        Ok(ServerResult::CallToolResult(result))
    }

    /// A section of an offload.
    async fn resource(&self, asked: ReadResourceRequestParams, modern: bool) -> Result<ServerResult, ErrorData> {
        let (tools, tenant) = (self.tools.clone(), self.request.tenant.clone());
        let answer = tokio::task::spawn_blocking(move || tools.resource(&tenant, &asked.uri, modern)).await;
        let mut result: ReadResourceResult = read(answer)?;
        result.result_type = modern.then_some(ResultType::COMPLETE);
        Ok(ServerResult::ReadResourceResult(result))
    }

    /// The list with output schemas that allow a descriptor too, and with the tools at its end.
    fn listed(&self, list: ListToolsResult) -> ListToolsResult {
        let own = mcp::definitions().map(|definition| definition.to_string());
        let more = if list.next_cursor.is_none() { own.as_slice() } else { &[] };
        let json = serde_json::to_string(&list).ok();
        let changed = json.and_then(|json| mcp::with_tools_of_result(&json, SchemaChange::Widen, more));
        changed.and_then(|changed| serde_json::from_slice(&changed).ok()).unwrap_or(list)
    }

    /// Adds what a client has to know: that there are tools and resources, and what they are for.
    fn announce(capabilities: &mut ServerCapabilities, instructions: &mut Option<String>) {
        capabilities.tools.get_or_insert_default();
        capabilities.resources.get_or_insert_default();
        let given = instructions.take().filter(|text| !text.is_empty());
        *instructions = Some(given.into_iter().chain([mcp::guidance()]).collect::<Vec<_>>().join("\n\n"));
    }
}

impl<S: Service<RoleServer>> Service<RoleServer> for Offloading<S> {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let version = context.protocol_version();
        let modern = version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
        let (mut call, mut is_templates) = (None, false);
        match &request {
            ClientRequest::CallToolRequest(asked) if mcp::reads_offloads(&asked.params.name) => {
                return self.call(asked.params.clone(), modern).await;
            }
            ClientRequest::ReadResourceRequest(asked) if asked.params.uri.starts_with(URI) => {
                return self.resource(asked.params.clone(), modern).await;
            }
            ClientRequest::CallToolRequest(asked) => {
                let query = asked.params.arguments.as_ref().and_then(|arguments| serde_json::to_string(arguments).ok());
                call = Some(Request { tool: asked.params.name.to_string(), query, ..self.request.clone() });
            }
            ClientRequest::ListResourceTemplatesRequest(_) => is_templates = true,
            _ => {}
        }
        match (self.server.handle_request(request, context).await, call) {
            (Ok(ServerResult::CallToolResult(result)), Some(call)) => {
                Ok(ServerResult::CallToolResult(self.filtered(call, result).await))
            }
            (Ok(ServerResult::ListToolsResult(list)), _) => Ok(ServerResult::ListToolsResult(self.listed(list))),
            (Ok(ServerResult::ListResourceTemplatesResult(list)), _) => Ok(with_template(list)),
            // A server without templates need not know the method.
            (Err(error), _) if is_templates && error.code == ErrorCode::METHOD_NOT_FOUND => {
                Ok(with_template(ListResourceTemplatesResult::default()))
            }
            (Ok(ServerResult::InitializeResult(mut greeting)), _) => {
                Self::announce(&mut greeting.capabilities, &mut greeting.instructions);
                Ok(ServerResult::InitializeResult(greeting))
            }
            (Ok(ServerResult::DiscoverResult(mut greeting)), _) => {
                Self::announce(&mut greeting.capabilities, &mut greeting.instructions);
                Ok(ServerResult::DiscoverResult(greeting))
            }
            (answer, _) => answer,
        }
    }

    async fn handle_notification(
        &self,
        notification: <RoleServer as ServiceRole>::PeerNot,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.server.handle_notification(notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        let mut info = self.server.get_info();
        Self::announce(&mut info.capabilities, &mut info.instructions);
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.server.supported_protocol_versions()
    }
}

/// The list with the template of the resources, on its last page.
fn with_template(mut list: ListResourceTemplatesResult) -> ServerResult {
    if list.next_cursor.is_none() {
        list.resource_templates.extend(serde_json::from_str(mcp::TEMPLATE).ok());
    }
    ServerResult::ListResourceTemplatesResult(list)
}

/// The answer of a blocking call.
fn read<T: serde::de::DeserializeOwned>(
    answer: Result<Result<String, mcp::ProtocolError>, tokio::task::JoinError>,
) -> Result<T, ErrorData> {
    let internal = |error: &dyn std::fmt::Display| ErrorData::internal_error(error.to_string(), None);
    let answer = answer.map_err(|error| internal(&error))?;
    let json = answer.map_err(|error| ErrorData::new(ErrorCode(error.code), error.message, None))?;
    serde_json::from_str(&json).map_err(|error| internal(&error))
}
