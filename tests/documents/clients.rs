//! The page of the clients is made from the table in `lro-gateway`.

use lro_gateway::settings::KNOWN_CLIENTS;
use lro_tests::{read, workspace};
use serde_json::Value;

const PAGE: &str = "host-example/docs/reference/clients.md";
const BEGIN: &str = "<!-- clients: begin -->\n";
const END: &str = "<!-- clients: end -->\n";

/// Set to anything, the page is written instead of compared.
const WRITE: &str = "LRO_WRITE_SETTINGS";

#[test]
fn the_page_of_the_clients_has_every_client_and_source() {
    let page = read(&workspace().join(PAGE));
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (rows, after) = rest.split_once(END).unwrap();
    let known = |profile: Value| {
        let members = profile.as_object().unwrap().iter();
        members.map(|(key, value)| format!("`{key} = {value}`")).collect::<Vec<String>>().join(", ")
    };
    let row = |client: &lro_gateway::settings::KnownClient| {
        let profile = known(serde_json::to_value(client.profile).unwrap());
        format!("| `{}` | {} | {profile} | {} |\n", client.pattern, client.client, client.source)
    };
    let made: String = KNOWN_CLIENTS.iter().map(row).collect();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(workspace().join(PAGE), [before, BEGIN, &made, END, after].concat()).unwrap();
        return;
    }
    assert_eq!(rows, made, "write it with {WRITE}=1");
}
