//! The pages for operators: what they show to whom, and what a form changes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lro_tests::{version, wait_until};
use serde_json::json;

use crate::http::{Exchange, Headers, Reply, ask_modern};
use crate::policies::{ADMIN, Home, OPERATED, Operated, digest};
use crate::scripted::{descriptor, handle};
use crate::support::path_text;

/// The credentials of a browser with this password.
fn basic(password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("somebody:{password}")))
}

/// Sends a form as a browser does from a page of this origin.
fn send(gateway: &Operated, form: &str, origin: Option<&str>, credentials: &str) -> Reply {
    let length = form.len().to_string();
    let mut headers: Vec<(&str, &str)> =
        vec![("Content-Type", "application/x-www-form-urlencoded"), ("Content-Length", &length)];
    headers.extend(origin.map(|origin| ("Origin", origin)));
    headers.extend(Some(("Authorization", credentials)).filter(|(_, credentials)| !credentials.is_empty()));
    Exchange::open(&format!("{}/change", gateway.admin), "POST", &headers, form.as_bytes()).finish()
}

fn get(gateway: &Operated, path: &str, headers: Headers<'_>) -> Reply {
    Exchange::open(&format!("{}{path}", gateway.admin), "GET", headers, b"").finish()
}

#[test]
fn the_overview_shows_what_gateways_do() {
    let home = Home::new(OPERATED);
    let gateway = home.gateway();
    ask_modern(&gateway.gate.url, 1, "echo", json!({"text": "x"}));
    let large = ask_modern(&gateway.gate.url, 2, "huge", json!({"bytes": 300_000}));
    let handle = handle(&descriptor(&large["result"]).unwrap());
    let page = get(&gateway, "/", &[]);
    let text = page.text();
    assert_eq!((page.status, &*page.headers["content-type"]), (200, "text/html; charset=utf-8"), "{text}");
    assert_eq!(page.headers["content-security-policy"].split(';').next(), Some("default-src 'none'"));
    for expected in ["<td>echo</td>", "<td>huge</td>", &handle, "Tokens saved by day", "1 offloads", "<td>default</td>"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("<script") && !text.contains("<form"), "{text}");
    let style = get(&gateway, "/style.css", &[]);
    assert_eq!((style.status, &*style.headers["content-type"]), (200, "text/css; charset=utf-8"));
    assert_eq!(Exchange::open(&format!("{}/", gateway.admin), "DELETE", &[], b"").finish().status, 401);
    assert_eq!(get(&gateway, "/", &[("Host", "evil.example")]).status, 403);
}

#[test]
fn what_a_server_says_is_text_on_a_page() {
    let home = Home::new(OPERATED);
    let gateway = home.gateway_with(&["<script>alert(1)</script>&\"'"]);
    ask_modern(&gateway.gate.url, 1, "echo", json!({"text": "x"}));
    // The status of a gateway is written once a second.
    wait_until("the gateway on the page", || get(&gateway, "/", &[]).text().contains("faulty.py"));
    let text = get(&gateway, "/", &[]).text();
    assert!(!text.contains("<script"), "{text}");
    assert!(text.contains("&lt;script&gt;alert(1)&lt;/script&gt;&amp;"), "{text}");
}

#[test]
fn an_offload_is_looked_at_and_asked_with_the_admin_token() {
    let home = Home::new(OPERATED);
    let gateway = home.gateway();
    let large = ask_modern(&gateway.gate.url, 1, "huge", json!({"bytes": 300_000}));
    let shown = descriptor(&large["result"]).unwrap();
    let section = shown["files"].as_object().unwrap().keys().next().unwrap().clone();
    let path = format!("/offloads/default/{}", handle(&shown));
    for (credentials, status) in
        [("", 401), (&*basic("x"), 401), (&*basic(ADMIN), 200), (&*format!("Bearer {ADMIN}"), 200)]
    {
        let page = get(&gateway, &path, &[("Authorization", credentials)]);
        assert_eq!(page.status, status, "{}", page.text());
        if status == 401 {
            assert!(page.headers["www-authenticate"].starts_with("Basic realm="));
            assert!(!page.text().contains(&section), "{}", page.text());
        }
    }
    let own = [("Authorization", &*basic(ADMIN))];
    let text = get(&gateway, &path, &own).text();
    assert!(text.contains(&section) && text.contains("faulty") || text.contains("huge"), "{text}");
    let asked = get(&gateway, &format!("{path}?section={section}"), &own);
    assert!(asked.text().contains("<pre>"), "{}", asked.text());
    let wrong = get(&gateway, &format!("{path}?section={section}&where=%3D%3D+%3Cb%3E"), &own).text();
    assert!(wrong.contains("<pre>") && wrong.contains("== &lt;b&gt;") && !wrong.contains("<b>"), "{wrong}");
    let text =
        descriptor(&ask_modern(&gateway.gate.url, 2, "echo", json!({"text": "a line\n".repeat(20_000)}))["result"]);
    let path_of_text = format!("/offloads/default/{}", handle(&text.unwrap()));
    for question in ["section=text&where=&search=", "section=&where=&search=line"] {
        let answered = get(&gateway, &format!("{path_of_text}?{question}"), &own).text();
        assert!(answered.contains("<pre>{&quot;results&quot;:[{&quot;line&quot;:1,"), "{question}: {answered}");
    }
    for nothing in ["/offloads/default/01M80Z99Y86XT5TXS8952BNT88", "/offloads/other", "/offloads/", "/offloads/a/b/c"]
    {
        assert_eq!(get(&gateway, nothing, &own).status, 404, "{nothing}");
    }
    assert_eq!(get(&gateway, &path.replace("default", "somebody"), &own).status, 404);
}

#[test]
fn a_form_of_the_page_changes_a_policy_with_the_admin_token() {
    let home = Home::keeping();
    let gateway = home.gateway();
    let first = home.status(&gateway, "default")["sha256"].as_str().unwrap().to_owned();
    let second = version(2);
    home.policies(&gateway, &["load", "default", &path_text(&home.write("next.wasm", &second))]);
    let current = || home.status(&gateway, "default")["sha256"].as_str().unwrap().to_owned();
    assert_eq!(current(), digest(&second));

    let (credentials, form) = (basic(ADMIN), "tenant=default&sha256=&action=rollback");
    let own = gateway.admin.clone();
    let refused: [(Option<&str>, &str, u16); 5] = [
        (Some(&own), "", 401),
        (Some(&own), &basic("x"), 401),
        (None, &credentials, 403),
        (Some("http://localhost:1"), &credentials, 403),
        (Some("https://evil.example"), &credentials, 403),
    ];
    for (origin, credentials, status) in refused {
        assert_eq!(send(&gateway, form, origin, credentials).status, status, "{origin:?} {credentials}");
        assert_eq!(current(), digest(&second));
    }
    let changed = send(&gateway, form, Some(&own), &credentials);
    assert!(
        changed.status == 200 && changed.text().contains(&format!("default: swapped to {first}")),
        "{}",
        changed.text()
    );
    assert_eq!(current(), first);
    let swap = format!("tenant=default&sha256=+{}&action=swap", digest(&second));
    assert_eq!(send(&gateway, &swap, Some(&own), &credentials).status, 200);
    assert_eq!(current(), digest(&second));
    for (form, expected) in [
        ("tenant=nobody&sha256=&action=rollback", "nobody: "),
        ("tenant=default&sha256=12&action=swap", "64 hexadecimal digits"),
        ("tenant=default&action=explode", "the action is not known"),
        ("", "the action is not known"),
    ] {
        let answered = send(&gateway, form, Some(&own), &credentials).text();
        assert!(answered.contains(expected), "{form}: {answered}");
        assert_eq!(current(), digest(&second));
    }
    assert_eq!(get(&gateway, "/change", &[("Authorization", &credentials)]).status, 405);
    assert_eq!(get(&gateway, "/login", &[]).status, 401);
    let known = get(&gateway, "/login", &[("Authorization", &credentials)]);
    assert_eq!((known.status, &*known.headers["location"]), (303, "/"));
    assert!(get(&gateway, "/", &[("Authorization", &credentials)]).text().contains("Roll back"));
}

#[test]
fn from_other_machines_a_page_needs_a_token() {
    let home = Home::new(&OPERATED.replace("127.0.0.1", "0.0.0.0"));
    let mut gateway = home.gateway();
    gateway.admin = gateway.admin.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(get(&gateway, "/", &[]).status, 401);
    assert_eq!(get(&gateway, "/", &[("Authorization", &basic("x"))]).status, 401);
    assert_eq!(get(&gateway, "/", &[("Authorization", &basic(ADMIN))]).status, 200);
    assert_eq!(get(&gateway, "/style.css", &[]).status, 200, "it names nobody");
}
