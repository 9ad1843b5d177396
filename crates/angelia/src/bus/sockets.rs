//! The addresses of the bus: its own socket, and Hermes' socket if Hermes is used.

use std::{io, path::PathBuf};

use super::client::BusClient;
use crate::{
    assemble::App,
    cli::error::{CommandError, Exit},
    config::{Environment, HermesSocket, Home},
};

/// The paths of the bus's sockets.
#[derive(Clone, Debug)]
pub(crate) struct BusSockets {
    pub(crate) own: PathBuf,
    /// The socket at which hermes-bus programs expect the bus; `None` if Hermes is not used.
    pub(crate) hermes: Option<PathBuf>,
    /// Whether clients try Hermes' socket first, because the caller has chosen it.
    prefers_hermes: bool,
}

impl BusSockets {
    pub(crate) fn of_app(app: &App) -> Self {
        let mut sockets = Self::new(&app.home, &app.environment);
        match app.config.bus().hermes_socket {
            HermesSocket::Auto => {}
            HermesSocket::On => sockets.hermes = app.environment.hermes_bus_socket(),
            HermesSocket::Off => sockets.hermes = None,
        }
        sockets
    }

    /// Returns the sockets for a sender, which reads no configuration.
    pub(crate) fn of_sender(environment: &Environment) -> Result<Self, CommandError> {
        let home = Home::from_environment(environment)?;
        Ok(Self::new(&home, environment))
    }

    fn new(home: &Home, environment: &Environment) -> Self {
        let hermes = environment.hermes_bus_socket();
        Self {
            own: home.bus_socket(),
            hermes: hermes.filter(|_| environment.uses_hermes_bus()),
            prefers_hermes: environment.names_hermes_bus(),
        }
    }

    /// Connects to the first socket on which a bus answers.
    pub(crate) async fn connect(&self) -> io::Result<BusClient> {
        let (first, second) = match &self.hermes {
            Some(hermes) if self.prefers_hermes => (hermes, Some(&self.own)),
            hermes => (&self.own, hermes.as_ref()),
        };
        match (BusClient::connect(first).await, second) {
            (Ok(client), _) => Ok(client),
            (Err(error), Some(second)) => {
                BusClient::connect(second).await.map_err(|_also_absent| error)
            }
            (Err(error), None) => Err(error),
        }
    }

    pub(crate) fn unreachable_error(&self, exit: Exit, error: &io::Error) -> CommandError {
        let what = format!("the bus cannot be reached at {}: {error}", self.own.display());
        CommandError::new(exit, what).with_hint("start it with `angelia bus start`")
    }
}
