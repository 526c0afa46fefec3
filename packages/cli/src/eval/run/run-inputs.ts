import path from 'node:path'

import type { Scorer } from '@osmosis/eval'
import type { RunInputs } from '@osmosis/eval/analysis'

import { resolvePath } from '../../command/command-context.ts'
import type { ChosenPolicy } from '../../inputs/choose-policy.ts'
import { moduleFile, splitSpec } from '../../inputs/load-module.ts'
import { digestOf, sourcesIn, withImports } from '../../inputs/source-digest.ts'
import type { EvalRunFlags } from '../run.ts'
import type { EvalRunPlan } from './evaluation-plan.ts'

/** What decides the outcome of a run, but for what only the served entrypoint knows: its kind. */
export type KnownInputs = Omit<RunInputs, 'code'> & {
  readonly code: Omit<RunInputs['code'], 'kind'>
}

/** Finds out what decides the outcome of the run that a plan is about. */
export async function findInputs(
  plan: EvalRunPlan,
  flags: EvalRunFlags,
  model: ChosenPolicy,
  scorers: readonly Scorer[],
): Promise<KnownInputs> {
  const { temperature, maxTokens } = flags
  const evalFiles = (flags.evalFn ?? []).map((spec) =>
    moduleFile('eval function', splitSpec(spec).file),
  )
  const written = new Set([resolvePath(plan.outputRoot)])
  return {
    model: {
      name: model.name,
      base_url: addressOf(model),
      params: {
        ...(temperature === undefined ? {} : { temperature }),
        ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
      },
    },
    dataset: { name: plan.dataset, sha256: await digestOf([plan.datasetFile]) },
    code: {
      rollout: plan.rollout,
      entrypoint: plan.server?.url ?? path.relative(plan.root, plan.entrypoint),
      // Of a server's code nothing is known here.
      sha256: await digestOf(
        await withImports([
          ...(plan.server === undefined ? await sourcesIn(plan.sourceFolder, written) : []),
          ...(model.choice.kind === 'module' ? [model.choice.file] : []),
          ...evalFiles,
        ]),
      ),
      scorers: scorers.map(({ name }) => name),
    },
    ...(Object.keys(plan.workflow).length === 0 ? {} : { workflow: plan.workflow }),
    env: plan.env,
    secrets: Object.keys(plan.secrets).toSorted(),
    timeouts: {
      agent_seconds: plan.agentTimeoutSeconds,
      grader_seconds: plan.graderTimeoutSeconds,
      max_turns: flags.maxTurns ?? null,
    },
  }
}

/** The address of an endpoint, without user info; null for a module and for a provider. */
function addressOf({ choice }: ChosenPolicy): string | null {
  if (choice.kind !== 'endpoint') return null
  const { origin, pathname } = new URL(choice.baseUrl)
  return `${origin}${pathname.replace(/\/+$/, '')}`
}
