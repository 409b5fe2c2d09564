//! A server with one tool whose results are large, over standard input and output: `orders DIRECTORY`.

use std::error::Error;

use lro_host::extract::Extractor;
use lro_host::filter::Filter;
use lro_host::policy::{DEFAULT_POLICY, LoadOptions, Policy};
use lro_host::sandbox::{Limits, Sandbox};
use lro_host::settings::FailureMode;
use lro_host::store::{Store, StoreConfig};
use lro_rmcp::Offloading;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ServerHandler, ServiceExt};
use serde_json::{Value, json};

struct Orders;

impl ServerHandler for Orders {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities).with_instructions("Orders of a shop.")
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = json!({
            "name": "orders",
            "description": "The orders of this shop",
            "inputSchema": {"type": "object", "properties": {"count": {"type": "integer"}}},
            "outputSchema": {"type": "object", "required": ["orders"], "properties": {"orders": {"type": "array"}}},
        });
        let tool: Tool =
            serde_json::from_value(tool).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let count = call.arguments.as_ref().and_then(|arguments| arguments.get("count")).and_then(Value::as_u64);
        let state = |id: u64| ["open", "paid", "sent"][id as usize % 3];
        let order = |id: u64| json!({"id": id, "state": state(id), "amount": id * 7 % 1000});
        let orders: Vec<Value> = (0..count.unwrap_or(10)).map(order).collect();
        Ok(CallToolResult::structured(json!({ "orders": orders })).into())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).ok_or("usage: orders DIRECTORY")?;
    let sandbox = Sandbox::new()?;
    let store = Store::open(StoreConfig::new(directory))?;
    let filter = Filter {
        slot: Policy::from_bytes(&sandbox, DEFAULT_POLICY, &LoadOptions::default())?.into(),
        store: Ok(store.clone()),
        limits: Limits::default(),
        failure: FailureMode::Open,
        documents: None,
    };
    let extractor = Extractor::new(&sandbox, None, Limits::default())?;
    let server = Offloading::new(Orders, filter, store, extractor);
    server.serve(rmcp::transport::stdio()).await?.waiting().await?;
    Ok(())
}
