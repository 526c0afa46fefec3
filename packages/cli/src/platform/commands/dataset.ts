import type { Command } from '@commander-js/extra-typings'

import { countFrom, example, groups } from '../../command/flags.ts'
import {
  addListFlags,
  addLogFlags,
  onPlatform,
  platformCommand,
  type ProgramSettings,
} from './platform-flags.ts'

const loadActions = async () => import('../actions/datasets.ts')

/** Adds `validate`, which does not call the platform. */
export function addValidateDatasetCommand(datasets: Command, settings: ProgramSettings): void {
  const validate = platformCommand(datasets, 'validate')
    .description('check a file before uploading it, without calling the platform')
    .argument('<file>', 'a .jsonl, .csv or .parquet file')
    .optionsGroup(groups.inputs)
    .option('--entrypoint <module>', 'also check all rows by the schemas of this workflow')
    .addHelpText('after', example('osmosis dataset validate data/prices.jsonl'))
  onPlatform(validate, settings, async (session, { entrypoint }, file) => {
    const { validateFile } = await import('../actions/validate-dataset.ts')
    return validateFile(session, file, entrypoint)
  })
}

/** Adds the commands for datasets of the platform. */
export function addHostedDatasetCommands(datasets: Command, settings: ProgramSettings): void {
  const upload = platformCommand(datasets, 'upload')
    .description('upload a file as the dataset of its name')
    .argument('<file>', 'a .jsonl, .csv or .parquet file')
    .optionsGroup(groups.output)
    .option('--overwrite', 'replace an existing dataset')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText('after', example('osmosis platform dataset upload data/prices.jsonl'))
  onPlatform(upload, settings, async (session, flags, file) =>
    (await loadActions()).uploadFile(session, file, flags),
  )
  const list = platformCommand(datasets, 'list')
    .description('list the datasets of the workspace')
    .addHelpText('after', example('osmosis platform dataset list --all'))
  onPlatform(addListFlags(list), settings, async (session, flags) =>
    (await loadActions()).listDatasets(session, flags),
  )
  const info = platformCommand(datasets, 'info')
    .description('show a dataset on the platform')
    .argument('<dataset>', 'name or id of the dataset')
    .addHelpText('after', example('osmosis platform dataset info prices'))
  onPlatform(info, settings, async (session, _flags, name) =>
    (await loadActions()).showDataset(session, name),
  )
  const preview = platformCommand(datasets, 'preview')
    .description('show the first rows of a dataset')
    .argument('<dataset>', 'name or id of the dataset')
    .optionsGroup(groups.limits)
    .option('--rows <count>', 'number of rows', countFrom(1), 5)
    .addHelpText('after', example('osmosis platform dataset preview prices --rows 3'))
  onPlatform(preview, settings, async (session, { rows }, name) =>
    (await loadActions()).previewDataset(session, name, rows),
  )
  const download = platformCommand(datasets, 'download')
    .description('download a dataset')
    .argument('<dataset>', 'name or id of the dataset')
    .optionsGroup(groups.output)
    .option(
      '-o, --output <file>',
      'file or existing folder to write to (default: a file of its name in the working folder)',
    )
    .option('--overwrite', 'replace an existing file')
    .addHelpText('after', example('osmosis platform dataset download prices -o data/prices.jsonl'))
  onPlatform(download, settings, async (session, flags, name) =>
    (await loadActions()).downloadDataset(session, name, flags),
  )
  const logs = platformCommand(datasets, 'logs')
    .description('show the log of a dataset on the platform')
    .argument('<dataset>', 'name or id of the dataset')
    .addHelpText('after', example('osmosis platform dataset logs prices'))
  onPlatform(addLogFlags(logs), settings, async (session, flags, name) =>
    session.showLogs(['datasets', name], flags),
  )
}
