//! The real model as the tests of our own loop use it.

use angelia_testkit::{llama_server::LlamaServer, process_table};

#[test]
fn it_serves_until_it_is_dropped_and_says_its_window() {
    let server = LlamaServer::start(1024).unwrap();
    let pid = i32::try_from(server.pid()).unwrap();
    let models = server.get("/v1/models").unwrap();
    assert_eq!((models.status, &models.body["data"][0]["meta"]["n_ctx"]), (200, &1024.into()));
    drop(server);
    assert_eq!(process_table::state(pid), None);
}
