import { createHash } from 'node:crypto'

import {
  AgentWorkflow,
  Grader,
  lastAssistantText,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
  type PolicyCall,
} from '@osmosis/core'
import { LocalBackend } from '@osmosis/server'

import type { TrainingRow } from '../kit/trainers/index.ts'
import type { AskForCode } from './agents/ask-for-code.ts'

/** Each letter is once in each place, so that guesses are right in a quarter of the letters. */
const codes = ['ab', 'bc', 'cd', 'da']

/** One row for each code. All ask the same, so a policy cannot know a code by its row. */
export const rows: readonly TrainingRow[] = codes.map((code) => ({
  initialMessages: [{ role: 'user', content: 'What is the code of the door?' }],
  label: code,
  metadata: { code },
}))

/** What the rollout server knows of a rollout that was graded. */
export interface GradedRollout {
  readonly code: string
  readonly reward: number
  readonly calls: readonly PolicyCall[]
}

/** How the rollouts of a training run continue the side of their server. */
export interface DoorRollouts {
  readonly backend: LocalBackend
  /** By the names of rollouts. */
  readonly graded: Map<string, GradedRollout>
}

/**
 * Rollouts of an agent that looks for codes of doors. Reward: the share of letters that are right.
 *
 * `failing` is the share of rollouts that fail *because* they have used the tool, when all is said. `nameOf`
 * makes names of rollouts from what their trainer calls them.
 */
export function doorRollouts(
  agent: AskForCode,
  { failing, nameOf }: { readonly failing: number; readonly nameOf: (id: string) => string },
): DoorRollouts {
  const names = new Map<string, string>()
  const graded = new Map<string, GradedRollout>()

  class OpenDoor extends AgentWorkflow {
    async run(ctx: AgentWorkflowContext): Promise<unknown> {
      const name = nameOf(callerOf(ctx))
      names.set(ctx.rolloutId, name)
      const code = String(ctx.metadata?.['code'])
      let reads = 0
      const readNote = (): string => {
        reads += 1
        return code
      }
      const said = await agent(ctx, readNote)
      if (reads > 0 && chance(name) < failing) throw new Error('The light went out.')
      return said
    }
  }

  class RightLetters extends Grader {
    async grade(ctx: GraderContext): Promise<void> {
      const code = ctx.requireLabel()
      const said = lastAssistantText(ctx.sample)
      const right = letterPairs(code, said).filter(([letter, guess]) => letter === guess)
      const reward = right.length / code.length
      graded.set(names.get(ctx.rolloutId) ?? ctx.rolloutId, {
        code,
        reward,
        calls: ctx.sample.calls,
      })
      ctx.setReward(reward)
    }
  }

  const backend = new LocalBackend({ workflow: OpenDoor, grader: RightLetters, maxConcurrent: 128 })
  return { backend, graded }
}

function letterPairs(code: string, said: string): [string, string | undefined][] {
  return Array.from(code, (letter, at) => [letter, said[at]])
}

/** What the trainer calls a rollout: Miles knows it by the session in the URL of its policy. */
function callerOf({ rolloutId }: AgentWorkflowContext): string {
  const { chatCompletionsUrl } = requireRolloutContext('OpenDoor')
  const [, session] = /\/sessions\/([^/]+)\//.exec(chatCompletionsUrl) ?? []
  return session ?? rolloutId
}

/** From 0 to below 1, and the same for the same rollout. */
function chance(name: string): number {
  return createHash('sha256').update(name).digest().readUInt32BE() / 2 ** 32
}
