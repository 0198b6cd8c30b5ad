//! What can be typed after `kohort broker`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::org::AskArgs;
use super::{DirectoryArgs, LogArgs, OutputArgs, SettingsArgs, key_value};

const BROKER_EXAMPLES: &str = "\
Examples:
  kohort broker --data-dir /var/lib/kohort --rail-listen 0.0.0.0:9643
  kohort broker id --data-dir /var/lib/kohort     what gateways dial
  kohort gateway id --key-file gateway.key        on the gateway's machine: who the gateway is
  kohort broker allow ID                          let that gateway in
  kohort broker list
  kohort broker deny ID                           keep it out, and cut its link

The broker holds all data and listens for gateways only, on UDP. Kafka clients talk to gateways:
see `kohort gateway --help`. A broker that listens for clients too is `kohort` alone, which takes
gateways with --set kohort.rail.listen=ADDR:PORT.

The broker's key is in the file rail-key of the data directory. Who reads it can be the broker.";

/// `kohort broker`: a broker for gateways elsewhere, or a question to one.
#[derive(Debug, Args)]
#[command(after_help = BROKER_EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct BrokerArgs {
    /// What to do; without it, run a broker.
    #[command(subcommand)]
    pub(crate) command: Option<BrokerCommand>,

    /// The flags of a broker.
    #[command(flatten)]
    pub(crate) run: BrokerRunArgs,
}

/// The flags of a broker without listeners for clients.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct BrokerRunArgs {
    /// Listen for gateways here, on UDP; also the setting kohort.rail.listen
    #[arg(long, value_name = "ADDR:PORT", value_parser = rail_address)]
    pub(crate) rail_listen: Option<SocketAddr>,

    /// Keep data in this directory [default: ./kohort-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Read settings from this TOML file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Serve health, metrics, group events, snapshots and the lists of organisations, users and gateways here,
    /// or `none` [default: 127.0.0.1:9644]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<String>,

    /// Set a property by its name; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,

    /// What is logged, and how.
    #[command(flatten)]
    pub(crate) logging: LogArgs,
}

impl BrokerRunArgs {
    /// Where settings come from, as for a broker that listens for clients.
    pub(crate) fn settings(&self) -> SettingsArgs {
        let mut set = self.set.clone();
        set.extend(self.rail_listen.map(|address| ("kohort.rail.listen".to_owned(), address.to_string())));
        SettingsArgs {
            data_dir: self.data_dir.clone(),
            config: self.config.clone(),
            admin: self.admin.clone(),
            set,
            ..SettingsArgs::default()
        }
    }
}

fn rail_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "must be an IP address and a port, as 0.0.0.0:9643")
}

/// What can be done about the gateways of a broker.
#[derive(Debug, Subcommand)]
pub(crate) enum BrokerCommand {
    /// Show the endpoint id that gateways dial; its key is made if there is none yet
    Id {
        /// Which directory.
        #[command(flatten)]
        directory: DirectoryArgs,
        /// How to show results.
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Let a gateway in
    Allow {
        /// The gateway's endpoint id, as `kohort gateway id` shows it
        #[arg(value_name = "ID")]
        id: String,
        /// Where to ask and how to show results.
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Keep a gateway out, and cut its link
    Deny {
        /// The gateway's endpoint id
        #[arg(value_name = "ID")]
        id: String,
        /// Where to ask and how to show results.
        #[command(flatten)]
        ask: AskArgs,
    },
    /// List gateways: who may come in, and who is there
    List {
        /// Where to ask and how to show results.
        #[command(flatten)]
        ask: AskArgs,
    },
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::Cli;

    #[test]
    fn the_rail_listens_on_an_address_and_a_port() {
        let said = |address| {
            let parsed = Cli::try_parse_from(["kohort", "broker", "--rail-listen", address]);
            parsed.err().map(|error| error.to_string())
        };
        assert_eq!(said("0.0.0.0:9643"), None);
        for wrong in ["localhost:31643", "foo", "127.0.0.1"] {
            let said = said(wrong).unwrap();
            assert!(said.contains("must be an IP address and a port, as 0.0.0.0:9643"), "{said}");
        }
    }
}
