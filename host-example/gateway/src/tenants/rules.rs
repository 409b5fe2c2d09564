//! State that the sessions of a gateway or of a tenant share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use lro_host::filter::Filter;
use lro_host::mcp::{self, Message, Tools};
use lro_transport::{DiskBudget, MessageLimits, Pool, Share};

use crate::files::{self, Files};
use crate::metrics::Metrics;
use crate::session::KnownLists;
use crate::settings::Config;
use crate::tenants::Tenants;
use crate::tenants::caches::TenantCaches;
use crate::tenants::jobs::Jobs;
use crate::tenants::pending_limits::PendingLimits;
use crate::tenants::tasks::Tasks;
use crate::tenants::workers::Workers;

/// Configuration, policy and tools of a gateway.
#[derive(Debug)]
pub struct Rules {
    /// The configuration.
    pub config: Config,
    /// The filter that applies the policy.
    pub filter: Filter,
    /// The tools that read offloads; `None` without a store.
    pub tools: Option<Tools>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Limits of a message. Each tenant has its own share of memory and disk.
    pub limits: Arc<MessageLimits>,
    /// The tenants with their own policies; `None` if all share one.
    pub tenants: Option<Arc<Tenants>>,
    pub(crate) tasks: Arc<Tasks>,
    /// The running jobs of all tenants.
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) caches: Arc<TenantCaches>,
    /// Threads that filter results.
    pub(crate) workers: Workers,
    /// Threads that answer questions about offloads, apart from those for results.
    pub(crate) questions: Workers,
    /// Threads that collect the pages of tools.
    pub(crate) collectors: Workers,
    /// Threads that send messages to servers that may not read.
    pub(crate) senders: Workers,
    pub(crate) pending: PendingLimits,
    /// Definitions of the tools that read offloads, as JSON.
    pub(crate) definitions: Vec<String>,
    /// JSON Schema of the argument for a question about the result of a call.
    pub(crate) question_schema: String,
    /// Whether the server has tools with the same names, as another gateway does.
    name_conflict: AtomicBool,
    /// What addresses of downloads begin with; empty until the gateway listens.
    pub(crate) downloads: Arc<OnceLock<String>>,
    /// What is known of the lists of the server.
    pub(crate) lists: Arc<KnownLists>,
    /// Files that clients can ask about.
    pub(crate) files: Option<Arc<Files>>,
    /// Whether there is no server whose results are filtered.
    only_reads: bool,
    /// Instructions in the place of a server's.
    pub(crate) instructions: Option<String>,
    /// Dropped messages and lines of servers.
    dropped: Arc<AtomicU64>,
    /// Dropped messages for clients that do not listen.
    unheard: Arc<AtomicU64>,
    /// Whether the gateway is about to end.
    draining: Arc<AtomicBool>,
}

impl Rules {
    /// Creates the rules of a gateway. Without `tools`, the gateway advertises nothing, as nothing could be read back.
    pub fn new(config: Config, filter: Filter, tools: Option<Tools>) -> Self {
        let limits = MessageLimits {
            memory_bytes: usize::try_from(config.gateway.message_memory.get()).unwrap_or(usize::MAX),
            message_bytes: config.gateway.message_bytes.get(),
            disk: DiskBudget::new(config.gateway.message_disk.get()),
            directory: config.dir.clone(),
            share: Share { pool: Pool::new(config.gateway.memory_bytes.get()), holder: config.gateway.tenant.clone() },
        };
        Self {
            definitions: mcp::definitions().iter().map(ToString::to_string).collect(),
            question_schema: mcp::question_schema().to_string(),
            limits: Arc::new(limits),
            metrics: Arc::default(),
            tenants: None,
            tasks: Arc::default(),
            jobs: Arc::default(),
            workers: Workers::for_results(config.admission.waiting as usize),
            questions: Workers::for_questions(config.query.waiting as usize),
            collectors: Workers::for_collecting(),
            senders: Workers::for_sending(config.gateway.requests.get() as usize),
            pending: PendingLimits::default(),
            caches: Arc::default(),
            name_conflict: AtomicBool::new(false),
            downloads: Arc::default(),
            lists: Arc::default(),
            files: None,
            only_reads: false,
            instructions: None,
            dropped: Arc::default(),
            unheard: Arc::default(),
            draining: Arc::default(),
            config,
            filter,
            tools,
        }
    }

    /// Lets clients read offloads, and ask about files, whatever the settings of a tenant.
    pub(crate) fn only_read(&mut self, files: Option<Files>) {
        self.only_reads = true;
        if let Some(files) = files {
            self.definitions = files::definitions();
            self.instructions = Some(files::guidance());
            self.files = Some(Arc::new(files));
        }
    }

    /// The rules of a tenant: these, unless the tenant has its own policy.
    pub(crate) fn of(self: &Arc<Self>, tenant: &str) -> Arc<Self> {
        let own = self.tenants.as_ref().and_then(|tenants| tenants.rules(self, tenant));
        own.unwrap_or_else(|| Arc::clone(self))
    }

    /// Derives the rules of a tenant with its own settings and policy. State of its previous rules is kept.
    pub(crate) fn with(&self, tenant: &str, config: Config, filter: Filter, before: Option<&Self>) -> Self {
        let config = if self.only_reads { config.for_reading() } else { config };
        let limits = before.map_or_else(|| self.limits_of(tenant), |before| Arc::clone(&before.limits));
        let workers = || Workers::for_results(config.admission.waiting as usize);
        let questions = || Workers::for_questions(config.query.waiting as usize);
        let senders = || Workers::for_sending(config.gateway.requests.get() as usize);
        Self {
            workers: before.map_or_else(workers, |before| before.workers.clone()),
            questions: before.map_or_else(questions, |before| before.questions.clone()),
            collectors: before.map_or_else(Workers::for_collecting, |before| before.collectors.clone()),
            senders: before.map_or_else(senders, |before| before.senders.clone()),
            jobs: Arc::clone(&self.jobs),
            config,
            filter,
            tools: self.tools.clone(),
            metrics: Arc::clone(&self.metrics),
            limits,
            tenants: None,
            tasks: before.map(|before| Arc::clone(&before.tasks)).unwrap_or_default(),
            pending: before.map(|before| before.pending.clone()).unwrap_or_default(),
            caches: before.map(|before| Arc::clone(&before.caches)).unwrap_or_default(),
            definitions: self.definitions.clone(),
            question_schema: self.question_schema.clone(),
            name_conflict: AtomicBool::new(before.unwrap_or(self).has_name_conflict()),
            downloads: Arc::clone(&self.downloads),
            lists: Arc::clone(&self.lists),
            files: self.files.clone(),
            only_reads: self.only_reads,
            instructions: self.instructions.clone(),
            dropped: Arc::clone(&self.dropped),
            unheard: Arc::clone(&self.unheard),
            draining: Arc::clone(&self.draining),
        }
    }

    /// Limits of a message of a tenant: a share of the common memory, and its own disk budget.
    fn limits_of(&self, tenant: &str) -> Arc<MessageLimits> {
        let share = Share { holder: tenant.to_owned(), ..self.limits.share.clone() };
        Arc::new(MessageLimits { share, disk: self.limits.disk.another(), ..MessageLimits::clone(&self.limits) })
    }

    /// Whether HTTP requests need a bearer token.
    pub(crate) fn has_tokens(&self) -> bool {
        self.tenants.as_ref().is_some_and(|tenants| tenants.has_tokens())
    }

    /// Whether a tenant no longer exists.
    pub(crate) fn is_removed(&self, tenant: &str) -> bool {
        self.tenants.as_ref().is_some_and(|tenants| !tenants.has(tenant))
    }

    /// Whether filtering is on. Off, every message passes byte for byte.
    pub(crate) fn enabled(&self) -> bool {
        self.config.enabled
    }

    /// Whether the gateway only records decisions and changes nothing.
    pub(crate) fn audits(&self) -> bool {
        self.config.gateway.audit
    }

    /// Whether the gateway may change messages.
    pub(crate) fn changes(&self) -> bool {
        self.enabled() && !self.audits()
    }

    /// Whether the gateway adds its tools and resources to the server's.
    pub(crate) fn announces(&self) -> bool {
        self.changes() && self.tools.is_some()
    }

    /// Whether clients of revision 2026-12-01 are served.
    pub(crate) fn gives_outputs(&self) -> bool {
        self.changes() && self.config.gateway.output_variants
    }

    /// Whether clients may download files.
    pub(crate) fn transfers_files(&self) -> bool {
        self.announces() && self.config.gateway.file_transfer
    }

    /// Counts and logs server output that is dropped because it is not a message. Only the 1st, 2nd, 4th, 8th and so on
    /// are logged.
    pub(crate) fn record_dropped(&self, message: &Message, reason: impl std::fmt::Display) {
        self.metrics.unreadable();
        let (lines, bytes) = (self.dropped.fetch_add(1, Ordering::Relaxed) + 1, message.bytes().len());
        if lines.is_power_of_two() {
            let text = "dropped server output that is not a message";
            tracing::warn!(lines, bytes, %reason, "{text}");
        }
    }

    /// Counts and logs a message that is dropped because its client does not listen; of many as
    /// [`record_dropped`](Self::record_dropped) does.
    pub(crate) fn record_unheard(&self, bytes: usize, reason: &str) {
        let messages = self.unheard.fetch_add(1, Ordering::Relaxed) + 1;
        if messages.is_power_of_two() {
            tracing::warn!(messages, bytes, reason, "dropped a message for a client that does not listen");
        }
    }

    /// Records that the gateway is about to end, so that load balancers send clients elsewhere.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether the gateway is about to end.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn set_name_conflict(&self) {
        self.name_conflict.store(true, Ordering::Relaxed);
    }

    /// Whether the server has tools with the names of the gateway's own.
    pub(crate) fn has_name_conflict(&self) -> bool {
        self.name_conflict.load(Ordering::Relaxed)
    }
}
