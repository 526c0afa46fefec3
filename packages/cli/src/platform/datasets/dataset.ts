import type { Command } from 'commander'

import { countFrom } from '../../command/flags.ts'
import {
  addListFlags,
  addLogFlags,
  type ListFlags,
  type LogFlags,
  addPlatformCommand,
  type PlatformFlags,
  type ProgramSettings,
} from '../platform-flags.ts'

/** Flags of `dataset validate`. */
export interface ValidateFlags extends PlatformFlags {
  entrypoint?: string
}

/** Flags of `dataset upload` and `dataset download`. */
export interface TransferFlags extends PlatformFlags {
  overwrite?: boolean
  output?: string
  yes?: boolean
}

/** Flags of `dataset preview`. */
export interface PreviewFlags extends PlatformFlags {
  rows: number
}

/** Adds `dataset` with its commands. */
export function addDatasetCommands(program: Command, settings: ProgramSettings): void {
  const datasets = program.command('dataset').description('datasets on the platform')
  addPlatformCommand(datasets, 'validate', settings, {
    run: async (session, flags: ValidateFlags, [file = '']) =>
      (await import('./dataset-actions.ts')).validate(session, file, flags),
  })
    .description('check a file before it is uploaded, without asking the platform')
    .argument('<file>', 'a .jsonl, .csv or .parquet file')
    .option(
      '--entrypoint <module>',
      'check all rows by the metadata schema of this workflow as well',
    )
  addPlatformCommand(datasets, 'upload', settings, {
    run: async (session, flags: TransferFlags, [file = '']) =>
      (await import('./dataset-actions.ts')).upload(session, file, flags),
  })
    .description('upload a file as the dataset of its name')
    .argument('<file>', 'a .jsonl, .csv or .parquet file')
    .option('--overwrite', 'replace the dataset that is there')
    .option('-y, --yes', 'do not ask before that')
  addListFlags(
    addPlatformCommand(datasets, 'list', settings, {
      run: async (session, flags: ListFlags) =>
        (await import('./dataset-actions.ts')).list(session, flags),
    }).description('list the datasets of the workspace'),
  )
  addPlatformCommand(datasets, 'info', settings, {
    run: async (session, _flags, [name = '']) =>
      (await import('./dataset-actions.ts')).info(session, name),
  })
    .description('show what the platform knows of a dataset')
    .argument('<dataset>', 'its name or id')
  addPlatformCommand(datasets, 'preview', settings, {
    run: async (session, flags: PreviewFlags, [name = '']) =>
      (await import('./dataset-actions.ts')).preview(session, name, flags),
  })
    .description('show the first rows of a dataset')
    .argument('<dataset>', 'its name or id')
    .option('--rows <count>', 'how many', countFrom(1), 5)
  addPlatformCommand(datasets, 'download', settings, {
    run: async (session, flags: TransferFlags, [name = '']) =>
      (await import('./dataset-actions.ts')).download(session, name, flags),
  })
    .description('download a dataset')
    .argument('<dataset>', 'its name or id')
    .option(
      '-o, --output <file>',
      'where to, a file or a folder that is there (default: its own name, here)',
    )
    .option('--overwrite', 'replace the file that is there')
  addLogFlags(
    addPlatformCommand(datasets, 'logs', settings, {
      run: async (session, flags: LogFlags, [name = '']) =>
        (await import('./dataset-actions.ts')).logs(session, name, flags),
    })
      .description('show what happened to a dataset on the platform')
      .argument('<dataset>', 'its name or id'),
  )
}
