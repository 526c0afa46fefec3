// The same agent, with a grader that compares the attempts at a row: a right answer is worth more if it
// took fewer tokens than the other right ones.
//
//   osmosis eval run -m examples/rollouts/multiply-ai-sdk/compared.ts -d examples/data/multiply.jsonl --n 4
import {
  GroupGrader,
  lastAssistantText,
  type GroupGraderContext,
  type GroupMember,
} from '@osmosis/core'

export { MultiplyWorkflow } from './main.ts'

/** 1 for the cheapest right answer of the group, down to 0.5 for others that are right; 0 for wrong ones. */
export class CheapestGrader extends GroupGrader {
  async gradeGroup(ctx: GroupGraderContext): Promise<void> {
    const { members, failed } = ctx
    const label = ctx.requireLabel()
    const right = members.filter((member) => isRight(member, label))
    const least = Math.min(...right.map(tokensOf))
    for (const member of members) {
      member.sample.metrics = { tokens: tokensOf(member), failed_beside: failed.length }
      member.setReward(right.includes(member) ? 0.5 + (0.5 * least) / tokensOf(member) : 0)
    }
  }
}

function isRight({ sample }: GroupMember, label: string): boolean {
  const [, answer = ''] = /####\s*([-+]?\d*\.?\d+)/.exec(lastAssistantText(sample)) ?? []
  return Math.abs(parseFloat(answer) - parseFloat(label)) < 0.01
}

/** Completion tokens of the attempt; at least 1, because an endpoint may not report usage. */
function tokensOf({ sample }: GroupMember): number {
  return Math.max(
    1,
    sample.calls.reduce((sum, { usage }) => sum + (usage?.completion_tokens ?? 0), 0),
  )
}
