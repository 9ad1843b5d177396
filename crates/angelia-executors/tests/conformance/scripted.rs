//! The fixture of every real program: an isolated home and the scripted model on loopback. The
//! differences between programs are in [`ScriptedProgram`].

use angelia_core::model::{NativeSessionId, SessionSpec};
use angelia_executors::{
    Registration,
    selftest::{AgentProgram, CheckedAgent, ScriptedFixture},
};
use angelia_testkit::{
    conformance::executor::{ExecutorFixture, LongTool},
    isolated_home::IsolatedHome,
};
use serde_json::Value;

use crate::{isolated_executor::IsolatedExecutor, long_tools::LongTools};

pub(crate) trait ScriptedProgram: Sync {
    fn registration(&self) -> &'static Registration;

    fn program(&self) -> AgentProgram;

    /// Changes the files of the program in this home.
    fn prepare(&self, _place: &IsolatedHome) {}

    /// Returns a specification without a login.
    fn spec_without_login(&self, place: &IsolatedHome, base_url: &str) -> SessionSpec;

    /// Returns a prompt that makes the program kill itself. A process it leaves behind keeps its
    /// pipes open.
    fn die(&self, agent: &dyn CheckedAgent) -> String {
        agent.approval_prompt("kill -9 $PPID; timeout 60 tail -f /dev/null")
    }

    fn structured(&self, _value: &Value) -> Option<String> {
        None
    }

    fn has_record(&self, place: &IsolatedHome, native: &NativeSessionId) -> bool;

    fn shares_processes(&self) -> bool {
        false
    }

    fn parts(&self) -> &'static [&'static str] {
        &[]
    }
}

pub(crate) struct RealFixture<P> {
    program: P,
    agent: ScriptedFixture,
    place: IsolatedExecutor,
    tools: LongTools,
}

impl<P: ScriptedProgram> RealFixture<P> {
    pub(crate) fn new(program: P) -> Self {
        let registration = program.registration();
        let place = IsolatedExecutor::new(registration);
        let agent = ScriptedFixture::new(
            registration.selftest.unwrap(),
            place.executor.clone(),
            program.program(),
            place.isolated.clone(),
        );
        program.prepare(&place.isolated);
        let tools = LongTools::new(place.isolated.work_dir());
        Self { program, agent: agent.unwrap(), place, tools }
    }
}

impl<P: ScriptedProgram> ExecutorFixture for RealFixture<P> {
    fn agent(&self) -> &dyn CheckedAgent {
        &self.agent
    }

    fn mark(&self) -> String {
        self.place.mark.clone()
    }

    fn shares_processes(&self) -> bool {
        self.program.shares_processes()
    }

    fn helper_programs(&self) -> &'static [&'static str] {
        self.program.parts()
    }

    fn long_tool(&self) -> LongTool {
        self.tools.in_group(&self.agent)
    }

    fn escaped_tool(&self) -> LongTool {
        self.tools.escaped(&self.agent)
    }

    fn hang_prompt(&self) -> String {
        "HANG_HEADERS".to_owned()
    }

    fn auth_failure(&self) -> (SessionSpec, String) {
        let url = self.agent.server().base_url();
        let spec = self.program.spec_without_login(&self.place.isolated, &url);
        (spec, "hello".to_owned())
    }

    fn exit_prompt(&self) -> Option<String> {
        Some(self.program.die(&self.agent))
    }

    fn structured_prompt(&self, value: &Value) -> Option<String> {
        self.program.structured(value)
    }

    fn has_record(&self, native: &NativeSessionId) -> Option<bool> {
        Some(self.program.has_record(&self.place.isolated, native))
    }
}
