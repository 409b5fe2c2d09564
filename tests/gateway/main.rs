//! The gateway between real servers and real clients, one binary.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

mod asked;
mod blocks;
mod clients;
mod collect;
mod compiled;
mod crowd;
mod documents;
mod downloads;
mod faults;
mod headers;
mod http;
mod intercepted;
mod job_live;
mod job_tasks;
mod jobs;
mod kills;
mod kinds;
mod lasting;
mod lists;
mod neighbours;
mod nosy;
mod policies;
mod profiles;
mod real;
mod replies;
mod resources;
mod schemas;
mod scripted;
mod servers;
mod sessions;
mod settings;
mod slow;
mod stores;
mod support;
mod tasks;
mod tenants;
mod transparent;
mod unseen;
mod wire;
