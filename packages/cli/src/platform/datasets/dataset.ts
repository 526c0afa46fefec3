import type { Command } from '@commander-js/extra-typings'

import { countFrom, example, groups, type FlagsOf } from '../../command/flags.ts'
import {
  addListFlags,
  addLogFlags,
  onPlatform,
  platformCommand,
  type ProgramSettings,
} from '../platform-flags.ts'

function declareValidate(datasets: Command) {
  return platformCommand(datasets, 'validate')
    .description('check a file before uploading it, without calling the platform')
    .argument('<file>', 'a .jsonl, .csv or .parquet file')
    .optionsGroup(groups.inputs)
    .option('--entrypoint <module>', 'also check all rows by the metadata schema of this workflow')
    .addHelpText('after', example('osmosis dataset validate data/prices.jsonl'))
}

/** Flags of `dataset validate`. */
export type ValidateFlags = FlagsOf<typeof declareValidate>

function declareUpload(datasets: Command) {
  return platformCommand(datasets, 'upload')
    .description('upload a file as the dataset of its name')
    .argument('<file>', 'a .jsonl, .csv or .parquet file')
    .optionsGroup(groups.output)
    .option('--overwrite', 'replace an existing dataset')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText('after', example('osmosis dataset upload data/prices.jsonl'))
}

/** Flags of `dataset upload`. */
export type UploadFlags = FlagsOf<typeof declareUpload>

function declarePreview(datasets: Command) {
  return platformCommand(datasets, 'preview')
    .description('show the first rows of a dataset')
    .argument('<dataset>', 'its name or id')
    .optionsGroup(groups.limits)
    .option('--rows <count>', 'number of rows', countFrom(1), 5)
    .addHelpText('after', example('osmosis dataset preview prices --rows 3'))
}

/** Flags of `dataset preview`. */
export type PreviewFlags = FlagsOf<typeof declarePreview>

function declareDownload(datasets: Command) {
  return platformCommand(datasets, 'download')
    .description('download a dataset')
    .argument('<dataset>', 'its name or id')
    .optionsGroup(groups.output)
    .option(
      '-o, --output <file>',
      'file or existing folder to write to (default: a file of its name in the working folder)',
    )
    .option('--overwrite', 'replace an existing file')
    .addHelpText('after', example('osmosis dataset download prices -o data/prices.jsonl'))
}

/** Flags of `dataset download`. */
export type DownloadFlags = FlagsOf<typeof declareDownload>

/** Adds `dataset` with its commands. */
export function addDatasetCommands(program: Command, settings: ProgramSettings): void {
  const datasets = program.command('dataset').description('datasets on the platform')
  onPlatform(declareValidate(datasets), settings, async (session, flags, file) =>
    (await import('./dataset-actions.ts')).validate(session, file, flags),
  )
  onPlatform(declareUpload(datasets), settings, async (session, flags, file) =>
    (await import('./dataset-actions.ts')).upload(session, file, flags),
  )
  const list = platformCommand(datasets, 'list')
    .description('list the datasets of the workspace')
    .addHelpText('after', example('osmosis dataset list --all'))
  onPlatform(addListFlags(list), settings, async (session, flags) =>
    (await import('./dataset-actions.ts')).list(session, flags),
  )
  const info = platformCommand(datasets, 'info')
    .description('show a dataset on the platform')
    .argument('<dataset>', 'its name or id')
    .addHelpText('after', example('osmosis dataset info prices'))
  onPlatform(info, settings, async (session, _flags, name) =>
    (await import('./dataset-actions.ts')).info(session, name),
  )
  onPlatform(declarePreview(datasets), settings, async (session, flags, name) =>
    (await import('./dataset-actions.ts')).preview(session, name, flags),
  )
  onPlatform(declareDownload(datasets), settings, async (session, flags, name) =>
    (await import('./dataset-actions.ts')).download(session, name, flags),
  )
  const logs = platformCommand(datasets, 'logs')
    .description('show the log of a dataset on the platform')
    .argument('<dataset>', 'its name or id')
    .addHelpText('after', example('osmosis dataset logs prices'))
  onPlatform(addLogFlags(logs), settings, async (session, flags, name) =>
    (await import('./dataset-actions.ts')).logs(session, name, flags),
  )
}
