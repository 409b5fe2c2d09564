//! Flags shared by several subcommands: the settings, and the call that produced a result.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, ValueEnum};
use lro_gateway::settings::{VARIABLES, ValueForm, Variable};
use lro_host::sandbox::types::Abilities;

/// One flag for each configuration variable except those of the gateway, generated so that they never differ. The
/// values are parsed and checked together with the other layers by
/// [`Config::load`](lro_gateway::settings::Config::load).
#[derive(Clone, Debug, Default)]
pub(crate) struct SettingFlags(Vec<(String, String)>);

impl SettingFlags {
    /// Key and value of each given flag.
    pub(crate) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }
}

/// Heading of the flags of [`SettingFlags`].
const SETTINGS: &str = "Settings";

/// Leaves the settings out of the help of a subcommand, of which they would be most. It has them only when it is used.
pub(crate) fn without_settings(command: Command) -> Command {
    command.defer(|command| {
        let hidden = |argument: Arg| match argument.get_help_heading() {
            Some(SETTINGS) => argument.hide_long_help(true),
            _ => argument,
        };
        let help = command.get_after_help().map(|help| format!("{help}\n\n")).unwrap_or_default();
        let help = format!("{help}`lro --help` lists the settings, which are options of each command.");
        command.mut_args(hidden).after_help(help).mut_subcommands(without_settings)
    })
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        let hidden = |variable| flag(variable).help_heading(SETTINGS).hide_short_help(true).global(true);
        variables(false).fold(command, |command, variable| command.arg(hidden(variable)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(pairs(matches, variables(false))))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// One flag for each gateway variable, for the subcommand `gateway`. The values are merged with those of
/// [`SettingFlags`].
#[derive(Clone, Debug, Default)]
pub(crate) struct GatewayFlags(Vec<(String, String)>);

impl GatewayFlags {
    /// Key and value of each given flag.
    pub(crate) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }
}

impl Args for GatewayFlags {
    fn augment_args(command: Command) -> Command {
        variables(true).fold(command, |command, variable| command.arg(flag(variable).help_heading("Gateway")))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for GatewayFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(pairs(matches, variables(true))))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The gateway variables, or all others.
fn variables(of_gateway: bool) -> impl Iterator<Item = &'static Variable> {
    VARIABLES.iter().filter(move |variable| variable.is_gateway() == of_gateway)
}

/// Key and value of each given flag.
fn pairs(matches: &ArgMatches, variables: impl Iterator<Item = &'static Variable>) -> Vec<(String, String)> {
    let pair = |variable: &Variable| {
        let text = matches.get_one::<String>(variable.key)?;
        Some((variable.key.to_owned(), text.clone()))
    };
    variables.filter_map(pair).collect()
}

fn flag(variable: &Variable) -> Arg {
    // clap requires `'static` names; a process parses only one command line.
    let name: &'static str = variable.flag().leak();
    let value = match variable.form {
        ValueForm::Text => "TEXT",
        ValueForm::Boolean => "BOOLEAN",
        ValueForm::Integer => "NUMBER",
        ValueForm::Bytes => "BYTES",
        ValueForm::List => "LIST",
    };
    Arg::new(variable.key).long(name).value_name(value).help(format!("{} [env: {}=]", variable.help, variable.name()))
}

/// When to color messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Format of messages and the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Plain text
    Text,
    /// One JSON object per line
    Json,
}

/// Type of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputForm {
    /// An MCP tool result, or a JSON-RPC response that holds one
    ToolResult,
    /// One JSON value
    Json,
    /// UTF-8 text; a policy may still detect JSON in it
    Text,
    /// Binary data, application/octet-stream
    Binary,
}

/// A tool available to the reader of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ability {
    /// A shell with jq, on this disk
    Shell,
    /// The tool `lro_extract`
    Extract,
    /// The tool `lro_read`
    Read,
    /// Nothing
    None,
}

/// The input, and the tool call that it is the result of.
#[derive(Args, Clone, Debug)]
pub(crate) struct CallArguments {
    /// File with the result; default or `-`: stdin
    pub(crate) file: Option<PathBuf>,
    /// Type of the input [default: a tool result if it is one, else text if it is UTF-8, else binary]
    #[arg(long = "as", value_name = "FORM")]
    pub(crate) form: Option<InputForm>,
    /// Name of the tool
    #[arg(long, value_name = "NAME", default_value = "offload")]
    pub(crate) tool: String,
    /// Session of the client, any text
    #[arg(long, value_name = "TEXT")]
    pub(crate) session: Option<String>,
    /// Tenant that owns the offload
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) tenant: String,
    /// Query of the call, for the header line of the files
    #[arg(long, value_name = "TEXT")]
    pub(crate) query: Option<String>,
    /// The tool reported an error
    #[arg(long)]
    pub(crate) error: bool,
    /// Tools available to the reader of the descriptor
    #[arg(long, value_name = "ABILITIES", value_delimiter = ',', default_value = "shell")]
    pub(crate) reader: Vec<Ability>,
}

impl CallArguments {
    /// Converts the abilities to flags of the contract.
    pub(crate) fn abilities(&self) -> Abilities {
        abilities(&self.reader)
    }
}

/// Converts abilities to flags of the contract.
pub(crate) fn abilities(reader: &[Ability]) -> Abilities {
    reader.iter().fold(Abilities::empty(), |abilities, ability| {
        abilities
            | match ability {
                Ability::Shell => Abilities::SHELL,
                Ability::Extract => Abilities::EXTRACT_TOOL,
                Ability::Read => Abilities::READ_TOOL,
                Ability::None => Abilities::empty(),
            }
    })
}
