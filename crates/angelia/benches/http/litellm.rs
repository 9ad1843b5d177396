//! Measures the `LiteLLM` proxy in front of the scripted model with the same client, as the common
//! alternative. It does much more per request; the scripted model alone is measured beside it.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use angelia_testkit::{
    benchmark::{
        BenchHome, MeasuredProcess, process_usage,
        report::{self, SampleSeries},
    },
    isolated_home::IsolatedHome,
    model_server::ModelServer,
    programs,
};
use anyhow::{Context as _, Result, bail};
use serde_json::json;

use crate::{
    client::ApiClient,
    daemon::{PROFILE, ServeDaemon},
};

const READY_TIMEOUT: Duration = Duration::from_mins(2);
const TURNS: u32 = 40;
const KEY: &str = "sk-benchmark-of-angelia-0123456789abcdef";

/// A running proxy.
struct LiteLlmProxy {
    running: MeasuredProcess,
    address: SocketAddr,
    /// From the start of the program to its first answer.
    ready: Duration,
    home: IsolatedHome,
}

impl LiteLlmProxy {
    #[expect(clippy::disallowed_methods, reason = "what is compared is started here")]
    fn start(model: &ModelServer) -> Result<Option<Self>> {
        let program = programs::workspace_root().join("target/bench-python/litellm/bin/litellm");
        if !program.is_file() {
            return Ok(None);
        }
        let home = IsolatedHome::new()?;
        let config = home.root().join("litellm.yaml");
        let settings = json!({"model_list": [{"model_name": "scripted", "litellm_params": {
            "model": "anthropic/claude-sonnet-4-5", "api_key": "dummy", "api_base": model.base_url(),
        }}]});
        fs::write(&config, settings.to_string())?;
        // The port was free a moment ago, and no other program takes ports here.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let log = fs::File::create(home.root().join("litellm.log"))?;
        let begun = Instant::now();
        let mut command = Command::new(&program);
        command
            .args(["--host", "127.0.0.1", "--port", &address.port().to_string()])
            .arg("--config")
            .arg(&config)
            .env_clear()
            .envs(home.environment())
            // Without these, LiteLLM uses the network for its price list and its telemetry.
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .env("LITELLM_TELEMETRY", "False")
            // The proxy listens on loopback for as long as the benchmark runs, so it gets a key.
            .env("LITELLM_MASTER_KEY", KEY)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let mut this = Self {
            running: MeasuredProcess::start(&mut command)?,
            address,
            ready: Duration::ZERO,
            home,
        };
        while !this.is_ready() {
            if begun.elapsed() > READY_TIMEOUT || this.running.has_ended()? {
                let log = this.home.root().join("litellm.log");
                bail!("LiteLLM did not start: {}", fs::read_to_string(log)?);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        this.ready = begun.elapsed();
        Ok(Some(this))
    }

    fn is_ready(&self) -> bool {
        ApiClient::connect(self.address, KEY)
            .and_then(|mut client| client.request("GET", "/health/liveliness", ""))
            .is_ok_and(|status| status == 200)
    }
}

pub(crate) fn measure(rounds: u32) -> Result<()> {
    let model = ModelServer::start().context("no scripted model")?;
    let Some(proxy) = LiteLlmProxy::start(&model)? else {
        report::print_section("LiteLLM is not installed here; nothing is put beside us");
        return Ok(());
    };
    let place = BenchHome::new(&programs::fake_cli()?, "http://127.0.0.1:9")?;
    let daemon = ServeDaemon::start(&place)?;
    let mut ours = daemon.client()?;
    let mut theirs = ApiClient::connect(proxy.address, KEY)?;
    let body = json!({"model": "scripted", "max_tokens": 1000, "stream": true,
        "messages": [{"role": "user", "content": "WORDS:20"}]})
    .to_string();
    let [mut our_first, mut our_end, mut their_first, mut their_end] =
        <[SampleSeries; 4]>::default();
    for round in 0..=rounds {
        for _ in 0..TURNS {
            let mine = ours.turn(PROFILE, "beside", "WORDS:20")?.timing;
            let other = theirs.stream("/v1/messages", "", &body)?.timing;
            // The first round is a warm-up and is not counted.
            if round > 0 {
                our_first.add(mine.first);
                our_end.add(mine.end);
                their_first.add(other.first);
                their_end.add(other.end);
            }
        }
    }
    let [we, they] = [
        "angelia serve, instant agent, /v1/messages",
        "LiteLLM proxy, instant model, /v1/messages",
    ];
    report::print_table("beside LiteLLM: first text", &[(we, &our_first), (they, &their_first)]);
    report::print_table("beside LiteLLM: whole turn", &[(we, &our_end), (they, &their_end)]);
    report::print_line(&format!(
        "LiteLLM was ready after {:.1} s and holds {:.0} MB; angelia holds {:.0} MB",
        proxy.ready.as_secs_f64(),
        process_usage::resident_megabytes(proxy.running.pid())?,
        process_usage::resident_megabytes(daemon.pid())?,
    ));
    Ok(())
}
