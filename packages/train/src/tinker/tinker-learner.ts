import { existsSync } from 'node:fs'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'

import type { Learner } from '../learner.ts'
import type { LearnerIdentity } from '../loop/same-training.ts'
import { ChatTemplate } from './chat-template.ts'
import { answerReader } from './read-answer.ts'
import { TinkerClient } from './service/tinker-client.ts'
import { TinkerModel } from './service/tinker-model.ts'
import type { TinkerLearnerOptions, TinkerUsage } from './service/tinker-options.ts'
import { tokenPolicy } from './token-policy.ts'

/** A learner on a Tinker service. Its folders have a file, `tinker.json`, that says where the service has the weights. */
export interface TinkerLearner extends Learner {
  readonly usage: TinkerUsage
  /** Aborted with the reason when the service no longer samples. */
  readonly lost: AbortSignal
}

/** What of a learner on a service must not change during a training, as far as that is known before it is opened. */
export function tinkerLearnerIdentity({
  baseModel,
  loraRank = 16,
}: Pick<TinkerLearnerOptions, 'baseModel' | 'loraRank'>): Omit<LearnerIdentity, 'modelFiles'> {
  return { name: baseModel, trained: { '--lora-rank': loraRank } }
}

/**
 * Opens a learner on a Tinker service. The model is made there, and unloaded by `close`: services hold a fixed number of
 * models.
 *
 * @throws OsmosisError with code `invalid_config`, `unauthorized` or `learner_error`
 */
export async function openTinkerLearner(options: TinkerLearnerOptions): Promise<TinkerLearner> {
  const { baseModel, tokenizer, loraRank } = options
  if (loraRank !== undefined && loraRank < 1) {
    throw new OsmosisError(
      'invalid_config',
      'A Tinker service trains LoRA adapters alone: their rank (--lora-rank) is 1 or more.',
    )
  }
  const given = tokenizer === undefined ? undefined : new ChatTemplate(tokenizer)
  const model = new TinkerModel(new TinkerClient(options), options)
  try {
    await model.open()
    const template = given ?? new ChatTemplate(tokenizerFolder(baseModel, await model.tokenizer()))
    const policy = tokenPolicy({
      name: baseModel,
      template,
      readAnswer: answerReader(template.source),
      maxLength: options.maxLength ?? 8192,
      sample: (prompt, settings, signal) =>
        model.sample(prompt, { ...settings, stop: [...template.endIds] }, signal),
    })
    return {
      ...tinkerLearnerIdentity(options),
      modelFiles: template.files,
      policy,
      lost: model.lost,
      get version() {
        return model.version
      },
      get usage() {
        return model.usage
      },
      update: (batch, settings) => model.update(batch, settings),
      save: (folder) => model.save(folder),
      load: (folder) => model.load(folder),
      export: (folder) => model.export(folder),
      close: () => model.close(),
    }
  } catch (error) {
    await model.close()
    throw error
  }
}

function tokenizerFolder(baseModel: string, named: string | undefined): string {
  const folder = [named, baseModel].find(
    (name) => name !== undefined && existsSync(path.join(name, 'tokenizer.json')),
  )
  if (folder !== undefined) return folder
  throw new OsmosisError(
    'invalid_config',
    `No folder with the tokenizer of ${named ?? baseModel} was given. Download tokenizer.json, tokenizer_config.json, generation_config.json and chat_template.jinja (where the model has it) from its page on the hub into a folder, and pass that folder (--tokenizer).`,
  )
}
