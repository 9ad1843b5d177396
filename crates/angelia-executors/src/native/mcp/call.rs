//! A call of an MCP server's tool. The server's hint that a tool is read-only affects only the
//! order of calls; permission for a call is decided as for every other tool.

use std::{sync::Arc, time::Duration};

use angelia_core::{model::RawJson, ports::BoxFuture};
use rmcp::model::JsonObject;
use tokio::time::timeout;

use super::{
    result::to_output,
    servers::{McpTool, ServerPlace},
};
use crate::native::tools::{CallError, CallIo, CallOutput, CallPlan, OutputFolder, PreparedCall};

/// Calls time out a little before the engine would end the whole turn.
const CLOCK_SHARE: f64 = 0.9;

#[derive(Debug)]
pub(super) struct McpCall {
    plan: CallPlan,
    tool: Arc<McpTool>,
    arguments: JsonObject,
    output: Arc<OutputFolder>,
    limit: Duration,
}

impl McpCall {
    pub(super) fn new(
        tool: &Arc<McpTool>,
        arguments: &RawJson,
        place: &ServerPlace,
    ) -> Result<Self, CallError> {
        let arguments = serde_json::from_str(arguments.get())
            .map_err(|error| CallError::new(format!("the arguments are no object: {error}")))?;
        // A person decides by this title, so it does not contain the server's own descriptions.
        let title = format!("{}: {}", tool.server.name, tool.remote_name);
        Ok(Self {
            plan: CallPlan::external(title, tool.is_read_only),
            tool: Arc::clone(tool),
            arguments,
            output: Arc::clone(&place.output),
            limit: place.spec.timeouts.tool.mul_f64(CLOCK_SHARE),
        })
    }
}

impl PreparedCall for McpCall {
    fn plan(&self) -> &CallPlan {
        &self.plan
    }

    fn run(self: Box<Self>, io: CallIo) -> BoxFuture<'static, CallOutput> {
        let Self { tool, arguments, output, limit, .. } = *self;
        Box::pin(async move {
            let call = timeout(limit, tool.server.call(&tool.remote_name, arguments));
            let done = tokio::select! {
                biased;
                () = io.cancel.cancelled() => {
                    return CallOutput::failure("interrupted; the server was told to stop");
                }
                done = call => done,
            };
            match done {
                Ok(Ok(result)) => to_output(result, output).await,
                Ok(Err(words)) => CallOutput::failure(words),
                Err(_late) => CallOutput::failure(format!(
                    "the call took longer than {} seconds; the server was told to stop",
                    limit.as_secs()
                )),
            }
        })
    }
}
