//! What can be typed after `kohort gateway`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{LISTEN_HELP, LogArgs, OutputArgs, SettingsArgs, key_value};

const GATEWAY_EXAMPLES: &str = "\
Examples:
  kohort gateway id --key-file gateway.key        who this gateway is; makes the key
  kohort broker allow ID                          on the broker's machine: let it in
  kohort gateway --broker ID@broker.example:9643 --key-file gateway.key \\
    --listen 0.0.0.0:9092 --advertise kafka-1.example:9092

A gateway keeps nothing: it can be stopped, killed and started anywhere with the same key, and any
number of gateways, each with a key of its own, serve every topic and group. Where there are
several, each needs --advertise, so that clients are told of all of them.

The ID after --broker is that of the broker (`kohort broker id`). The key comes from --key-file, or
from the variable KOHORT_GATEWAY_KEY, which holds what the file holds.

TLS, logins and limits of connections are settings of the gateway, as they are of `kohort serve`:
--config, --set and the environment. Everything else is set at the broker.";

/// `kohort gateway`: Kafka listeners in front of a broker elsewhere.
#[derive(Debug, Args)]
#[command(after_help = GATEWAY_EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct GatewayArgs {
    /// What to do; without it, run a gateway.
    #[command(subcommand)]
    pub(crate) command: Option<GatewayCommand>,

    /// The flags of a gateway.
    #[command(flatten)]
    pub(crate) run: GatewayRunArgs,
}

/// The flags of a gateway.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct GatewayRunArgs {
    /// The broker: its endpoint id and where it listens for gateways
    #[arg(long, value_name = "ID@ADDR:PORT", env = "KOHORT_BROKER")]
    pub(crate) broker: Option<String>,

    /// Where to listen.
    #[arg(long, value_name = "ADDR:PORT", help = LISTEN_HELP)]
    pub(crate) listen: Vec<String>,

    /// Give clients this address instead of the one they dialled, also those of other gateways; may be repeated with
    /// NAME://ADDR:PORT
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) advertise: Vec<String>,

    /// Who this gateway is.
    #[command(flatten)]
    pub(crate) key: KeyArgs,

    /// Read settings from this TOML file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Serve health and metrics here [default: nowhere]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<String>,

    /// Set a property by its name; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,

    /// What is logged, and how.
    #[command(flatten)]
    pub(crate) logging: LogArgs,
}

impl GatewayRunArgs {
    /// Where settings come from, as for a broker that listens for clients.
    pub(crate) fn settings(&self) -> SettingsArgs {
        SettingsArgs {
            listen: self.listen.clone(),
            advertise: self.advertise.clone(),
            config: self.config.clone(),
            admin: self.admin.clone(),
            set: self.set.clone(),
            ..SettingsArgs::default()
        }
    }
}

/// What can be asked of a gateway's key.
#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// Show a gateway's endpoint id, which the broker has to allow; the key is made if there is none yet
    Id {
        /// Who the gateway is.
        #[command(flatten)]
        key: KeyArgs,
        /// How to show results.
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// Where a gateway's key is.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct KeyArgs {
    /// The file that holds the gateway's key; without it, the variable KOHORT_GATEWAY_KEY holds the key itself
    #[arg(long, value_name = "FILE", env = "KOHORT_GATEWAY_KEY_FILE")]
    pub(crate) key_file: Option<PathBuf>,
}
