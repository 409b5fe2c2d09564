//! A client of `rmcp` before the example server.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

use std::path::PathBuf;

use rmcp::model::{CallToolRequestParams, CallToolResult, ReadResourceRequestParams};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use rmcp::{ServiceError, ServiceExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

type Client = RunningService<RoleClient, ()>;

/// The example, which cargo builds with the tests.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples/orders")
}

/// Runs a test on a runtime of its own.
fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test);
}

async fn client(root: &TempDir) -> Client {
    let mut command = Command::new(example());
    command.arg(root.path());
    ().serve(TokioChildProcess::new(command).unwrap()).await.unwrap()
}

async fn call(client: &Client, tool: &'static str, arguments: Value) -> CallToolResult {
    let Value::Object(arguments) = arguments else { panic!("{arguments}") };
    client.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await.unwrap()
}

fn structured(result: &CallToolResult) -> &Value {
    assert_ne!(result.is_error, Some(true), "{result:?}");
    result.structured_content.as_ref().unwrap()
}

#[test]
fn a_client_asks_about_an_offload_and_reads_it() {
    run(async {
        let root = TempDir::new().unwrap();
        let client = client(&root).await;
        let instructions = client.peer_info().unwrap().instructions.clone().unwrap();
        assert!(instructions.starts_with("Orders of a shop.\n\n"), "{instructions}");
        assert_eq!(instructions.matches("arrive as a descriptor").count(), 1, "{instructions}");
        let tools = client.list_all_tools().await.unwrap();
        assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["orders", "lro_extract", "lro_read"]);
        assert!(tools[0].output_schema.as_ref().unwrap().contains_key("anyOf"), "{:?}", tools[0].output_schema);
        let templates = client.list_all_resource_templates().await.unwrap();
        assert_eq!(templates.len(), 1, "{templates:?}");

        let small = call(&client, "orders", json!({"count": 3})).await;
        assert_eq!(structured(&small)["orders"].as_array().unwrap().len(), 3);
        let large = call(&client, "orders", json!({"count": 5000})).await;
        let descriptor = structured(&large);
        assert_eq!(descriptor["offloaded"], true, "{descriptor}");
        assert!(!descriptor.to_string().contains(root.path().to_str().unwrap()), "{descriptor}");
        let handle = &descriptor["handle"];
        let answer =
            call(&client, "lro_extract", json!({"handle": handle, "where": "state == 'paid'", "count": true})).await;
        assert_eq!(structured(&answer)["results"], json!([{"count": 1667}]));
        let (mut read, mut arguments) = (0, json!({"handle": handle}));
        loop {
            let page = call(&client, "lro_read", arguments).await;
            for record in structured(&page)["records"].as_array().unwrap() {
                assert_eq!(record["id"], read);
                read += 1;
            }
            match &structured(&page)["next"] {
                Value::Null => break,
                next => arguments = json!({"handle": handle, "cursor": next}),
            }
        }
        assert_eq!(read, 5000);
        let uri = format!("lro://{}/orders?offset=4998", handle.as_str().unwrap());
        let resource = client.read_resource(ReadResourceRequestParams::new(uri)).await.unwrap();
        let resource = serde_json::to_value(resource).unwrap();
        assert_eq!(resource["contents"][0]["text"].as_str().unwrap().lines().count(), 2, "{resource}");
        client.cancel().await.unwrap();
    });
}

#[test]
fn what_cannot_be_answered_is_said() {
    run(async {
        let root = TempDir::new().unwrap();
        let client = client(&root).await;
        let handle = "01K00000000000000000000000";
        let refused = call(&client, "lro_extract", json!({"handle": handle, "count": true})).await;
        assert_eq!(refused.is_error, Some(true), "{refused:?}");
        let asked = ReadResourceRequestParams::new(format!("lro://{handle}/orders"));
        let error = client.read_resource(asked).await.unwrap_err();
        let ServiceError::McpError(error) = error else { panic!("{error}") };
        assert!(error.message.contains("expired") || error.message.contains("there is no"), "{error}");
        client.cancel().await.unwrap();
    });
}
