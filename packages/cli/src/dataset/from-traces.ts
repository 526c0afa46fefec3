import { Option, type Command } from '@commander-js/extra-typings'

import { decimalNumber, example, groups, repeated, type FlagsOf } from '../command/flags.ts'

/** Adds `dataset from-traces`. */
export function declareFromTraces(datasets: Command) {
  return datasets
    .command('from-traces')
    .description(
      'make a dataset of what users asked an agent. Rules replace keys and personal data by placeholders such as [email]. They help and guarantee nothing: read the rows before you share them. Hashes, ids and other hexadecimal texts stay',
    )
    .argument('<files...>', 'exported traces as JSON or JSON Lines, and runs')
    .optionsGroup(groups.inputs)
    .addOption(
      new Option(
        '--from <format>',
        'format of the files (default: recognised from their content)',
      ).choices(['otel', 'langfuse', 'openai-agents', 'atif', 'run'] as const),
    )
    .option(
      '--good-score <number>',
      'feedback of at least this number makes an answer the ground truth (default: only yes and words such as "pass" do)',
      decimalNumber,
    )
    .option(
      '--with-system',
      'keep the instructions of the agent as system_prompt (default: left out, because an agent brings its own)',
    )
    .option(
      '--allow <regex>',
      'keep what rules would replace and this matches, e.g. base64 that a task is about; may be repeated',
      repeated,
    )
    .option(
      '--deny <regex>',
      'also replace what matches this, e.g. names; may be repeated',
      repeated,
    )
    .optionsGroup(groups.output)
    .requiredOption('-o, --output <file>', 'the dataset, a .jsonl file; - for stdout')
    .option('--report <file>', 'write what was left out and replaced to this file as JSON')
    .option('--force', 'replace existing files')
    .addHelpText('after', example('osmosis dataset from-traces spans.jsonl -o data/asked.jsonl'))
}

/** Flags of `osmosis dataset from-traces`. */
export type FromTracesFlags = FlagsOf<typeof declareFromTraces>
