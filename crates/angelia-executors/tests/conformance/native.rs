//! Our own loop on the scripted model, in each of its APIs.

use std::{io, path::Path, sync::Arc, time::Duration};

use angelia_core::{
    model::{NativeSessionId, SessionSpec},
    ports::Executor,
};
use angelia_executors::{
    native::{
        self,
        provider::Api,
        providers::{KeySource, Provider, ProviderCatalog},
    },
    scripted_model::{ModelServer, directive::tool_call_directive},
    selftest::CheckedAgent,
};
use angelia_testkit::{
    conformance::executor::{ExecutorFixture, LongTool},
    scripted_provider,
};
use serde_json::{Value, json};

use crate::{
    isolated_executor::IsolatedExecutor, long_tools::LongTools, recorded::RecordedExecutor,
};

pub(crate) struct NativeFixture {
    place: IsolatedExecutor,
    executor: Arc<dyn Executor>,
    server: ModelServer,
    tools: LongTools,
}

fn provider(name: &str, api: Api, server: &ModelServer) -> Provider {
    Provider { name: name.into(), ..scripted_provider::provider(server, api) }
}

impl NativeFixture {
    pub(crate) fn new(api: Api) -> Self {
        let server = ModelServer::start().unwrap();
        let place = IsolatedExecutor::with(&native::REGISTRATION, |_, host| {
            let locked = Provider {
                keys: vec![KeySource::Env("NO_SUCH_KEY".into())],
                ..provider("locked", api, &server)
            };
            let providers = [provider("scripted", api, &server), locked];
            host.providers = Arc::new(ProviderCatalog::new(providers, &host.environment));
        });
        let executor = Arc::new(RecordedExecutor::new(Arc::clone(&place.executor)));
        let tools = LongTools::new(place.isolated.work_dir());
        Self { place, executor, server, tools }
    }
}

impl CheckedAgent for NativeFixture {
    fn executor(&self) -> &Arc<dyn Executor> {
        &self.executor
    }

    fn spec(&self) -> SessionSpec {
        let mut spec = SessionSpec::new("native", self.place.isolated.work_dir());
        spec.model = Some("scripted/model".into());
        spec
    }

    fn say_prompt(&self, text: &str) -> String {
        format!("ECHO:{text}")
    }

    fn words_prompt(&self, count: usize, pause: Duration) -> String {
        format!("WORDS:{count}:{}", pause.as_millis())
    }

    fn approval_prompt(&self, command: &str) -> String {
        tool_call_directive("bash", &json!({"command": command}))
    }

    fn write_prompt(&self, path: &Path, line: &str) -> Option<String> {
        let input = json!({"path": path, "content": format!("{line}\n")});
        Some(tool_call_directive("write", &input))
    }

    fn model_error_prompt(&self, message: &str) -> Option<String> {
        Some(format!("STATUS:400 ECHO:{message}"))
    }

    fn tool_call_prompt(&self, tool: &str) -> Option<String> {
        Some(tool_call_directive(tool, &json!({})))
    }

    /// The loop reads nothing of its owner.
    fn plant_instructions(&self, _text: &str) -> Option<io::Result<()>> {
        None
    }

    fn last_model_request(&self) -> Option<Value> {
        self.server.model_requests().last().map(|last| last.json())
    }

    fn executes_commands(&self) -> bool {
        true
    }
}

impl ExecutorFixture for NativeFixture {
    fn agent(&self) -> &dyn CheckedAgent {
        self
    }

    fn mark(&self) -> String {
        self.place.mark.clone()
    }

    fn has_process(&self) -> bool {
        false
    }

    fn long_tool(&self) -> LongTool {
        self.tools.in_group(self)
    }

    fn escaped_tool(&self) -> LongTool {
        self.tools.escaped(self)
    }

    fn hang_prompt(&self) -> String {
        "HANG_HEADERS".to_owned()
    }

    fn auth_failure(&self) -> (SessionSpec, String) {
        let mut spec = CheckedAgent::spec(self);
        spec.model = Some("locked/model".into());
        (spec, "hello".to_owned())
    }

    /// An agent without a process cannot exit.
    fn exit_prompt(&self) -> Option<String> {
        None
    }

    fn structured_prompt(&self, value: &Value) -> Option<String> {
        Some(format!("ECHO:{value}"))
    }

    fn has_record(&self, _native: &NativeSessionId) -> Option<bool> {
        None
    }
}

mod chat {
    use angelia_executors::native::provider::Api;
    use angelia_testkit::executor_conformance;

    use super::NativeFixture;

    executor_conformance!(NativeFixture::new(Api::Chat));
}

mod messages {
    use angelia_executors::native::provider::Api;
    use angelia_testkit::executor_conformance;

    use super::NativeFixture;

    executor_conformance!(NativeFixture::new(Api::Messages));
}

mod responses {
    use angelia_executors::native::provider::Api;
    use angelia_testkit::executor_conformance;

    use super::NativeFixture;

    executor_conformance!(NativeFixture::new(Api::Responses));
}
