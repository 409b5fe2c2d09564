//! A store that cannot be used when the gateway starts: it goes on without, and with it once it can.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::scripted::{Script, Setup, descriptor, first_text, handle, records, structured};
use crate::support::path_text;

fn script() -> Script {
    Script::new().tool("large", "", structured(&json!({"items": records(2_000)})))
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

// What failed for a moment at the start does not fail for ever.
#[test]
fn a_store_that_could_not_be_opened_is_tried_again() {
    let place = TempDir::new().unwrap();
    let store = place.path().join("store");
    fs::create_dir(&store).unwrap();
    set_mode(&store, 0o777);
    let mut gateway =
        script().start_with(&Setup { variables: &[("MCP_LRO_DIR", &path_text(&store))], ..Setup::default() });
    let names: Vec<Value> = gateway.tools().into_iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["large", "lro_extract", "lro_read"], "what a later descriptor names is known from the start");
    for _ in 0..2 {
        let cut = gateway.call("large", json!({}));
        assert!(descriptor(&cut).is_none(), "{cut:.300}");
        assert!(first_text(&cut).contains("others can write to it"), "{:.300}", first_text(&cut));
    }
    let asked = gateway.call("lro_read", json!({"handle": "01K00000000000000000000000", "section": "items"}));
    assert_eq!(asked["isError"], true, "{asked}");
    set_mode(&store, 0o700);
    let offloaded = gateway.descriptor("large");
    let page = gateway.call("lro_read", json!({"handle": handle(&offloaded), "section": "items", "limit": 2}));
    assert_eq!(page["structuredContent"]["records"].as_array().map(Vec::len), Some(2), "{page}");
    let errors = gateway.end().errors;
    assert_eq!(errors.matches("results cannot be offloaded yet").count(), 1, "{errors}");
    assert_eq!(errors.matches("the store could be opened").count(), 1, "{errors}");
}

// A key that cannot be used costs cursors, and only until it can.
#[test]
fn a_key_of_cursors_is_tried_again() {
    let place = TempDir::new().unwrap();
    set_mode(place.path(), 0o700);
    let key = place.path().join(".cursor-key");
    fs::write(&key, [7; 32]).unwrap();
    set_mode(&key, 0o644);
    let mut gateway =
        script().start_with(&Setup { variables: &[("MCP_LRO_DIR", &path_text(place.path()))], ..Setup::default() });
    let asked = json!({"handle": handle(&gateway.descriptor("large")), "section": "items", "limit": 2});
    let page = gateway.call("lro_read", asked.clone());
    assert!(page["isError"] == true && first_text(&page).contains("others have access to it"), "{page}");
    set_mode(&key, 0o600);
    let page = gateway.call("lro_read", asked);
    assert!(page["structuredContent"]["next"].is_string(), "{page}");
}
