import type { Command } from 'commander'

import { endpointUrl } from './flag-values.ts'

/** Flags that say who answers the model calls. */
export interface PolicyFlags {
  policy?: string
  baseUrl?: string
  model?: string
  apiKeyEnv?: string
}

/**
 * Adds the flags that say who answers the model calls.
 *
 * @param preset - who does without any of them
 */
export function addPolicyOptions(
  command: Command,
  preset = 'default_policy of osmosis.toml',
): Command {
  return command
    .option(
      '--policy <name or module>',
      `let a policy of osmosis.toml, or a module that exports one, answer the model calls (default: ${preset})`,
    )
    .option(
      '--base-url <url>',
      'let an OpenAI-compatible endpoint answer the model calls',
      endpointUrl,
    )
    .option(
      '--model <name>',
      'model to ask for at the endpoint; without one, a model of a provider as <provider>/<model>, e.g. openai/gpt-5-mini',
    )
    .option(
      '--api-key-env <name>',
      'environment variable with the key of the endpoint (default: no key is sent; of a provider: its own variable)',
    )
}
