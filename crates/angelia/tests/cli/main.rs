//! The program as people and scripts use it: `angelia`, its commands and its daemon, in an isolated
//! home, with a cleared environment, offline.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod agent_processes;
mod agent_versions;
mod agents;
mod audit;
mod bad_agent;
mod bad_disk;
mod bad_input;
mod bad_records;
mod chat;
mod checklist;
mod clocks;
mod config_reload;
mod daemon;
mod demo;
mod doctor;
mod exits;
mod http;
mod keys;
mod killed;
mod lifecycle;
mod limits;
mod long_lists;
mod machine;
mod names;
mod native;
mod native_gateway;
mod once;
mod picture;
mod providers;
mod quota;
mod real_adopt;
mod rendering;
mod restart;
mod run_options;
mod schedules;
mod screen;
mod search;
mod selftest;
mod service;
mod session_files;
mod sessions;
mod settings;
mod setup;
mod setup_clients;
mod setup_servers;
mod status;
mod stopping;
mod terminal;
mod tmux;
mod transcript;
mod turns;
mod two_at_once;
