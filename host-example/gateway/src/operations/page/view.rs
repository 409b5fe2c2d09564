//! The HTML of the pages. Every text is escaped by the templates.

use lro_host::store::{Listed, OffloadRecord, Ulid, rfc3339};
use lro_json::write::thousands;
use maud::{DOCTYPE, Markup, html};

use super::{CHANGE_PATH, OFFLOADS_PATH, STYLE_PATH};
use crate::metrics::{ToolDay, Verdicts};
use crate::operations::admin::PolicyStatus;
use crate::operations::status::Status;

/// Digits of a digest that are shown.
const DIGEST_DIGITS: usize = 12;

/// What the first page shows.
#[derive(Default)]
pub(super) struct Overview {
    pub(super) gateways: Vec<Status>,
    pub(super) verdicts: Vec<(String, Verdicts)>,
    pub(super) days: Vec<ToolDay>,
    /// Policies of tenants, and whether they can be changed here.
    pub(super) policies: Vec<PolicyStatus>,
    pub(super) may_change: bool,
    pub(super) jobs: usize,
    /// The latest offloads, with the names of their tools; how many there are, and their bytes on the disk.
    pub(super) offloads: Vec<(Listed, Option<String>)>,
    pub(super) offloads_count: u64,
    pub(super) offloads_bytes: u64,
    /// What came of a change.
    pub(super) note: Option<String>,
}

/// An offload, and what was asked of it.
pub(super) struct Shown<'a> {
    pub(super) tenant: &'a str,
    pub(super) id: Ulid,
    pub(super) record: &'a OffloadRecord,
    /// Section, condition and text to find.
    pub(super) asked: [&'a str; 3],
    pub(super) answer: Option<&'a str>,
}

fn page(title: &str, content: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { (title) }
                link rel="stylesheet" href=(STYLE_PATH);
            }
            body { (content) }
        }
    };
    page.into_string()
}

pub(super) fn overview(overview: &Overview) -> String {
    let Overview { offloads_count, offloads_bytes, note, .. } = overview;
    page(
        "lro-filter",
        &html! {
            h1 { "lro-filter " (env!("CARGO_PKG_VERSION")) }
            @if let Some(note) = note { p.note role="status" { (note) } }
            h2 { "Gateways on this store" }
            (gateways(&overview.gateways))
            h2 { "Results by tool" }
            (verdicts(&overview.verdicts))
            h2 { "Tokens saved by day" }
            (days(&overview.days))
            @if !overview.policies.is_empty() {
                h2 { "Policies" }
                (policies(&overview.policies, overview.may_change))
            }
            h2 { "Offloads" }
            p {
                (thousands(*offloads_count)) " offloads, " (thousands(*offloads_bytes)) " bytes on the disk; "
                (overview.jobs) " jobs run in this gateway."
            }
            (offloads(&overview.offloads))
        },
    )
}

fn gateways(gateways: &[Status]) -> Markup {
    let minutes = |status: &Status| status.uptime_ms() / 60_000;
    html! {
        .scroll { table {
            thead { tr {
                th { "process" } th { "server" } th { "client" } th.number { "minutes" } th.number { "calls" }
                th.number { "offloaded" } th.number { "bytes in" } th.number { "bytes out" } th.number { "tokens saved" }
            } }
            tbody { @for status @ Status { about, client, totals, .. } in gateways { tr {
                td { (about.pid) } td { (about.server) } td { (client.as_deref().unwrap_or_default()) }
                (number(minutes(status))) (number(totals.calls)) (number(totals.verdicts.offload))
                (number(totals.bytes_in)) (number(totals.bytes_out)) (number(totals.tokens_saved))
            } } }
        } }
    }
}

fn verdicts(tools: &[(String, Verdicts)]) -> Markup {
    html! {
        @if tools.is_empty() { p { "None since this gateway started." } } @else { .scroll { table {
            thead { tr {
                th { "tool" } th.number { "passed" } th.number { "offloaded" } th.number { "truncated" }
                th.number { "refused" } th.number { "failed" }
            } }
            tbody { @for (tool, Verdicts { pass, offload, truncate, reject, fail }) in tools { tr {
                td { (tool) } (number(*pass)) (number(*offload)) (number(*truncate)) (number(*reject)) (number(*fail))
            } } }
        } } }
    }
}

fn days(days: &[ToolDay]) -> Markup {
    let most = days.iter().map(|day| day.tokens_saved).max().unwrap_or_default();
    html! {
        @if days.is_empty() { p { "None yet." } } @else { .scroll { table {
            thead { tr { th { "day" } th { "tool" } th.number { "calls" } th.number { "large" } th.number { "tokens saved" } th {} } }
            tbody { @for ToolDay { day, tool, calls, large, tokens_saved, .. } in days { tr {
                td { (day) } td { (tool) } (number(*calls)) (number(*large)) (number(*tokens_saved))
                td { meter min="0" max=(most.max(1)) value=(tokens_saved) {} }
            } } }
        } } }
    }
}

fn policies(policies: &[PolicyStatus], may_change: bool) -> Markup {
    html! {
        .scroll { table {
            thead { tr { th { "tenant" } th.number { "version" } th { "SHA-256" } th { "since" } th { "state" } th {} } }
            tbody { @for policy in policies { tr {
                td { (policy.tenant) }
                td.number { @if let Some(version) = policy.version { (version) } }
                td { code { (policy.sha256.as_deref().unwrap_or("none").chars().take(DIGEST_DIGITS).collect::<String>()) } }
                td { (policy.loaded.as_deref().unwrap_or_default()) }
                td {
                    @if policy.parked_ms.is_some() { "parked " }
                    @if let Some(refusal) = &policy.refusal { "refused: " (refusal) }
                    @if let Some(trial) = &policy.trial { "trial " (trial.state) ": " (trial.same) " same, " (trial.different) " different" }
                }
                td { @if may_change {
                    form method="post" action=(CHANGE_PATH) {
                        input type="hidden" name="tenant" value=(policy.tenant);
                        input name="sha256" placeholder="SHA-256" aria-label="SHA-256 of a known policy" size="16";
                        button name="action" value="swap" { "Swap" } " "
                        button name="action" value="rollback" { "Roll back" } " "
                        button name="action" value="reload" { "Reload" }
                    }
                } }
            } } }
        } }
        @if !may_change { p { a href="/login" { "Use the admin token" } " to change policies and to look into offloads." } }
    }
}

fn offloads(offloads: &[(Listed, Option<String>)]) -> Markup {
    html! {
        @if !offloads.is_empty() { .scroll { table {
            thead { tr { th { "written" } th { "tenant" } th { "tool" } th { "handle" } th.number { "bytes" } } }
            tbody { @for (listed, tool) in offloads { tr {
                td { (rfc3339(listed.id.time())) } td { (listed.tenant) }
                td { (tool.as_deref().unwrap_or("not readable here")) }
                td { a href={ (OFFLOADS_PATH) (listed.tenant) "/" (listed.id) } { code { (listed.id) } } }
                (number(listed.bytes))
            } } }
        } } }
    }
}

pub(super) fn offload(shown: &Shown<'_>) -> String {
    let Shown { tenant, id, record, asked: [section, condition, search], answer } = shown;
    page(
        &format!("Offload {id}"),
        &html! {
            h1 { "Offload " code { (id) } }
            p { a href="/" { "All" } " · tenant " (tenant) " · tool " (record.tool) " · " (record.created) }
            .scroll { table {
                thead { tr { th { "section" } th { "file" } th { "type" } th.number { "records or lines" } th.number { "bytes" } } }
                tbody { @for file in &record.files { tr {
                    td { a href={ "?section=" (encoded(&file.section)) } { (file.section) } }
                    td { code { (file.name) } } td { (file.media_type) } (number(file.records)) (number(file.bytes))
                } } }
            } }
            h2 { "Ask" }
            form method="get" {
                label { "section " input name="section" value=(section); } " "
                label { "where " input.wide name="where" value=(condition) placeholder="price > 100 and name contains \"x\""; } " "
                label { "or search " input name="search" value=(search) placeholder="text to find"; } " "
                button { "Ask" }
            }
            @if let Some(answer) = answer { pre { (answer) } }
        },
    )
}

/// A page about an error.
pub(super) fn error(text: &str) -> String {
    page("lro-filter", &html! { h1 { "lro-filter" } p { (text) } p { a href="/" { "All" } } })
}

fn number(number: u64) -> Markup {
    html! { td.number { (thousands(number)) } }
}

/// A text for the query of a URL.
fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
