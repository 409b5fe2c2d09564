//! Flags that several subcommands share: the settings, and the call whose result is looked at.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, ValueEnum};
use lro_gateway::settings::{VARIABLES, ValueForm, Variable};
use lro_host::sandbox::types::Abilities;

/// One flag for each variable of the configuration but those of the gateway, so that the two never differ. The values are
/// read and checked together with the other layers, by [`Config::load`](lro_gateway::settings::Config::load).
#[derive(Clone, Debug, Default)]
pub(crate) struct SettingFlags(Vec<(String, String)>);

impl SettingFlags {
    /// Key and text of each flag that was given.
    pub(crate) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        let hidden = |variable| flag(variable).help_heading("Settings").hide_short_help(true).global(true);
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

/// One flag for each variable of the gateway, for its subcommand. The pairs are joined with those of [`SettingFlags`].
#[derive(Clone, Debug, Default)]
pub(crate) struct GatewayFlags(Vec<(String, String)>);

impl GatewayFlags {
    /// Key and text of each flag that was given.
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

/// The variables of the gateway, or all others.
fn variables(of_gateway: bool) -> impl Iterator<Item = &'static Variable> {
    VARIABLES.iter().filter(move |variable| variable.is_gateway() == of_gateway)
}

/// Key and text of each flag that was given.
fn pairs(matches: &ArgMatches, variables: impl Iterator<Item = &'static Variable>) -> Vec<(String, String)> {
    let pair = |variable: &Variable| {
        let text = matches.get_one::<String>(variable.key)?;
        Some((variable.key.to_owned(), text.clone()))
    };
    variables.filter_map(pair).collect()
}

fn flag(variable: &Variable) -> Arg {
    // The parser wants names that live as long as the process; there is one command line in it.
    let name: &'static str = variable.flag().leak();
    let value = match variable.form {
        ValueForm::Text => "TEXT",
        ValueForm::Boolean => "BOOLEAN",
        ValueForm::Integer => "NUMBER",
        ValueForm::List => "LIST",
    };
    Arg::new(variable.key).long(name).value_name(value).help(format!("{} [env: {}=]", variable.help, variable.name))
}

/// When messages have colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What messages and the log are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object a line
    Json,
}

/// What an input is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputForm {
    /// An MCP tool result, or a JSON-RPC response that holds one
    ToolResult,
    /// One JSON value
    Json,
    /// One text of UTF-8; a policy may still find that it is JSON
    Text,
    /// Bytes, application/octet-stream
    Binary,
}

/// What the reader of a descriptor can use.
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

/// The input, and the call of a tool it is the result of.
#[derive(Args, Clone, Debug)]
pub(crate) struct CallArguments {
    /// The result; `-` or nothing for stdin
    pub(crate) file: Option<PathBuf>,
    /// What the input is, when the guess is wrong: a tool result if it is one, else text if it is UTF-8, else binary
    #[arg(long = "as", value_name = "FORM")]
    pub(crate) form: Option<InputForm>,
    /// Name of the tool
    #[arg(long, value_name = "NAME", default_value = "offload")]
    pub(crate) tool: String,
    /// Session of the client, any text
    #[arg(long, value_name = "TEXT")]
    pub(crate) session: Option<String>,
    /// Whose directory the files go to
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) tenant: String,
    /// What was asked, for the header line of the files
    #[arg(long, value_name = "TEXT")]
    pub(crate) query: Option<String>,
    /// The tool reported an error
    #[arg(long)]
    pub(crate) error: bool,
    /// What the reader of the descriptor can use
    #[arg(long, value_name = "ABILITIES", value_delimiter = ',', default_value = "shell")]
    pub(crate) reader: Vec<Ability>,
}

impl CallArguments {
    /// The abilities in the terms of the contract.
    pub(crate) fn abilities(&self) -> Abilities {
        self.reader.iter().fold(Abilities::empty(), |abilities, ability| {
            abilities
                | match ability {
                    Ability::Shell => Abilities::SHELL,
                    Ability::Extract => Abilities::EXTRACT_TOOL,
                    Ability::Read => Abilities::READ_TOOL,
                    Ability::None => Abilities::empty(),
                }
        })
    }
}
