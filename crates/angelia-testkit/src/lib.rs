//! Shared support for the tests and benchmarks of every crate: a scripted model server, the real
//! agent programs in an isolated environment, small fake ones, and an in-memory store. Only used as
//! a dev-dependency.

pub mod acp_agents;
pub mod any_event;
pub mod any_markdown;
pub mod benchmark;
pub mod bus_peer;
pub mod canary;
pub mod clock;
pub mod codex_home;
pub mod conformance;
pub mod dingtalk_server;
pub mod direct_session;
pub mod discord_server;
pub mod fault_proxy;
pub mod feishu_server;
pub mod folder_platform;
pub mod isolated_home;
pub mod lexical_paths;
pub mod llama_server;
pub mod manual_executor;
pub mod matrix_server;
pub mod mattermost_server;
pub mod mcp_servers;
pub mod memory_store;
pub mod oidc_server;
pub mod owner_programs;
pub mod plain_http;
pub mod plain_server;
pub mod platform_server;
pub mod postgres_query;
pub mod postgres_server;
pub mod process_table;
pub mod programs;
pub mod python_client;
pub mod real;
pub mod receiving_adapter;
pub mod recording_relay;
pub mod request_parts;
pub mod script_server;
pub mod scripted_provider;
pub mod slack_server;
pub mod stream_json;
pub mod telegram_server;
pub mod turn_output;
pub mod unreliable_store;
pub mod wecom_server;

pub use angelia_executors::scripted_model as model_server;
