//! What all sessions of a gateway share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::metrics::Metrics;
use crate::session::tasks::Tasks;
use crate::settings::Config;
use crate::tenants::Tenants;
use crate::tenants::memory::Memory;
use crate::tenants::waiting::Waiting;
use crate::tenants::workers::Workers;
use lro_host::filter::Filter;
use lro_host::mcp::{self, Message, Tools};
use lro_host::settings::Size;
use lro_transport::{DiskBudget, MessageLimits, Pool, Share};

/// Configuration, policy and tools of a gateway.
#[derive(Debug)]
pub struct Rules {
    /// The configuration.
    pub config: Config,
    /// What decides about results.
    pub filter: Filter,
    /// The tools that read back; none when there is no store.
    pub tools: Option<Tools>,
    /// What operators watch.
    pub metrics: Arc<Metrics>,
    /// Bounds of a message. A tenant with rules of its own has files of its own too.
    pub limits: Arc<MessageLimits>,
    /// Those that have a policy of their own; none when all share one.
    pub tenants: Option<Arc<Tenants>>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) memory: Arc<Memory>,
    /// Threads for results.
    pub(crate) workers: Workers,
    /// Threads for what clients ask of the gateway itself, so that it does not hold up results.
    pub(crate) questions: Workers,
    /// Threads for messages to servers that may not read.
    pub(crate) senders: Workers,
    pub(crate) waiting: Waiting,
    /// Definitions of the own tools, as JSON.
    pub(crate) definitions: Vec<String>,
    /// Whether the server has tools of the same names, as another gateway has.
    namesakes: AtomicBool,
    /// Lines of servers that are not messages.
    chatter: Arc<AtomicU64>,
}

impl Rules {
    /// Puts them together. Without tools nothing is announced, as nothing could be read back.
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
            limits: Arc::new(limits),
            metrics: Arc::default(),
            tenants: None,
            tasks: Arc::default(),
            workers: Workers::for_results(config.admission.waiting as usize),
            questions: Workers::for_questions(config.admission.questions as usize),
            senders: Workers::for_sending(config.gateway.requests.get() as usize),
            waiting: Waiting::default(),
            memory: Arc::default(),
            namesakes: AtomicBool::new(false),
            chatter: Arc::default(),
            config,
            filter,
            tools,
        }
    }

    /// The rules of a tenant: these, unless it has a policy of its own.
    pub(crate) fn of(self: &Arc<Self>, tenant: &str) -> Arc<Self> {
        let own = self.tenants.as_ref().and_then(|tenants| tenants.rules(self, tenant));
        own.unwrap_or_else(|| Arc::clone(self))
    }

    /// The same for a tenant with other settings and another policy. What was learned with the rules that it had before goes
    /// on.
    pub(crate) fn with(&self, tenant: &str, config: Config, filter: Filter, before: Option<&Self>) -> Self {
        let limits = before.map_or_else(|| self.limits_of(tenant), |before| Arc::clone(&before.limits));
        let waiting = &config.admission;
        let workers = || Workers::for_results(waiting.waiting as usize);
        let questions = || Workers::for_questions(waiting.questions as usize);
        let senders = || Workers::for_sending(config.gateway.requests.get() as usize);
        Self {
            workers: before.map_or_else(workers, |before| before.workers.clone()),
            questions: before.map_or_else(questions, |before| before.questions.clone()),
            senders: before.map_or_else(senders, |before| before.senders.clone()),
            config,
            filter,
            tools: self.tools.clone(),
            metrics: Arc::clone(&self.metrics),
            limits,
            tenants: None,
            tasks: before.map(|before| Arc::clone(&before.tasks)).unwrap_or_default(),
            waiting: before.map(|before| before.waiting.clone()).unwrap_or_default(),
            memory: before.map(|before| Arc::clone(&before.memory)).unwrap_or_default(),
            definitions: self.definitions.clone(),
            namesakes: AtomicBool::new(before.unwrap_or(self).has_namesakes()),
            chatter: Arc::clone(&self.chatter),
        }
    }

    /// Bounds of a message of a tenant: its share of the memory of all, and as much of the disk as each has.
    fn limits_of(&self, tenant: &str) -> Arc<MessageLimits> {
        let share = Share { holder: tenant.to_owned(), ..self.limits.share.clone() };
        Arc::new(MessageLimits { share, disk: self.limits.disk.another(), ..MessageLimits::clone(&self.limits) })
    }

    /// Whether requests over HTTP need a bearer token.
    pub(crate) fn has_tokens(&self) -> bool {
        self.tenants.as_ref().is_some_and(|tenants| tenants.has_tokens())
    }

    /// Whether a tenant cannot ask any more.
    pub(crate) fn is_gone(&self, tenant: &str) -> bool {
        self.tenants.as_ref().is_some_and(|tenants| !tenants.has(tenant))
    }

    /// Off, every message passes byte for byte.
    pub(crate) fn enabled(&self) -> bool {
        self.config.enabled
    }

    /// Whether results are decided upon without changing anything.
    pub(crate) fn audits(&self) -> bool {
        self.config.gateway.audit
    }

    /// Whether anything may go on otherwise than it came.
    pub(crate) fn changes(&self) -> bool {
        self.enabled() && !self.audits()
    }

    /// Whether anything is added to what the server tells about itself.
    pub(crate) fn announces(&self) -> bool {
        self.changes() && self.tools.is_some()
    }

    /// What no message with a tool result may exceed, whatever it holds: a preset is meant for what goes on the wire.
    pub(crate) fn ceiling(&self) -> Option<Size> {
        self.config.preset.map(|preset| preset.size())
    }

    /// Counts what a server wrote and is left out, as it is no message. Of much, less and less is logged: the 1st, the 2nd, the
    /// 4th, the 8th.
    pub(crate) fn leave_out(&self, message: &Message, reason: impl std::fmt::Display) {
        self.metrics.unreadable();
        let (lines, bytes) = (self.chatter.fetch_add(1, Ordering::Relaxed) + 1, message.bytes().len());
        if lines.is_power_of_two() {
            let text = "the server wrote something that is not a message; it is left out";
            tracing::warn!(lines, bytes, %reason, "{text}");
        }
    }

    pub(crate) fn found_namesakes(&self) {
        self.namesakes.store(true, Ordering::Relaxed);
    }

    /// Whether the server has tools of the names of the own ones.
    pub(crate) fn has_namesakes(&self) -> bool {
        self.namesakes.load(Ordering::Relaxed)
    }
}
