import { answeredCalls } from '../analysis/trajectory/trajectory-facts.ts'
import { textOf } from '../analysis/trajectory/trajectory-shape.ts'
import { excerpt, lastAnswer, stepText, type AuditedPass } from './audited-pass.ts'

/** Shorter labels, such as numbers of one digit, occur in prompts by chance. Characters. */
const shortestLabel = 4

/** An answer with this many candidates does not choose one. */
const mostListed = 8
const mostMarked = 4

/**
 * Where the agent could read the label instead of earning it: in the prompt, or in any text that names it as the
 * label or the expected answer. Undefined for neither.
 *
 * @param isUnique - whether the label is that of one row; others are choices, which prompts may name
 */
export function shownLabel(
  { conversations, label }: AuditedPass,
  isUnique: boolean,
): string | undefined {
  if (label === null) return undefined
  const word = wholeWord(label)
  const named = namedAsLabel(label)
  for (const [place, [, { steps }]] of conversations.entries()) {
    let isPrompt = true
    for (const step of steps) {
      const text = textOf(step.message)
      if (step.source !== 'agent') {
        // Other agents of the workflow write the prompts of the conversations behind the first.
        if (place > 0) continue
        const pattern = isPrompt && isUnique && label.length >= shortestLabel ? word : named
        const found = pattern.exec(text)
        if (found !== null) {
          const where = isPrompt ? 'the prompt' : `a message of the ${step.source}`
          return `${where} has the label: ${excerpt(text, found.index, found[0].length)}`
        }
        continue
      }
      isPrompt = false
      // From here on results may repeat what the agent wrote.
      if (word.test(text) || word.test(JSON.stringify(step.tool_calls ?? []))) break
      for (const { call, result } of answeredCalls(step)) {
        const output = textOf(result?.content)
        const found = named.exec(output)
        if (found === null) continue
        return `a result of ${call.function_name} names the label: ${excerpt(output, found.index, found[0].length)}`
      }
    }
  }
  return undefined
}

/** Why nothing shows what the answer should be; undefined when its row has a label, or nothing is stored of it. */
export function missingLabel({ graded }: AuditedPass): string | undefined {
  if (graded?.label === undefined || (graded.label ?? '').trim() !== '') return undefined
  return 'its row has no answer, and every graded rollout at such rows passes'
}

/** How an answer names many candidates, so that a lenient grader finds the label among them; undefined if not. */
export function listedCandidates({ conversations, label }: AuditedPass): string | undefined {
  for (const [, conversation] of conversations) {
    const last = lastAnswer(conversation)
    const text = last === undefined ? '' : stepText(last)
    const marked = new Set(
      [...text.matchAll(/(?:####|\\boxed\{|<answer>|\banswer(?: is)?:)\s*([^\n<}]{1,80})/gi)].map(
        ([, value = '']) => value.trim().toLowerCase(),
      ),
    )
    if (marked.size >= mostMarked) {
      return `the answer marks ${marked.size} final answers: ${listText(marked)}`
    }
    const listed = label === null ? [] : longestList(text, label)
    if (listed.length >= mostListed) {
      return `the answer lists ${listed.length} candidates, among them the label: ${listText(listed)}`
    }
  }
  return undefined
}

function listText(candidates: Iterable<string>): string {
  const all = [...candidates]
  return `${all.slice(0, 4).join(', ')}${all.length > 4 ? ', …' : ''}`
}

/** The distinct short parts that follow one another and have the label among them; empty for none. */
function longestList(text: string, label: string): string[] {
  const word = wholeWord(label)
  let list = new Set<string>()
  let longest: string[] = []
  for (const part of [...text.split(/[\n,;|]|\bor\b/), undefined]) {
    const candidate = part?.replace(/^\s*(?:[-*•]|\d+[.)])?\s*/, '').trim()
    if (candidate === '') continue
    if (candidate !== undefined && candidate.split(/\s+/).length <= 4) {
      list.add(candidate.toLowerCase())
      continue
    }
    if (list.size > longest.length && [...list].some((one) => word.test(one))) longest = [...list]
    list = new Set()
  }
  return longest
}

/** The label by itself: not `10.5` in `110.5` or `10.53`. */
function wholeWord(label: string): RegExp {
  return new RegExp(String.raw`(?<![\p{L}\p{N}]|\d[.,])${patternOf(label)}`, 'iu')
}

/** The label behind a word for it, such as `"expected_answer": "10.5"`. */
function namedAsLabel(label: string): RegExp {
  const names = String.raw`(?:label|ground[ _-]?truth|answer[ _-]?key|expected(?:[ _-]?(?:answer|output|result))?|(?:correct|reference|gold(?:en)?)[ _-]?answer)`
  return new RegExp(
    String.raw`(?<![\p{L}\p{N}])${names}\\?["']?(?: is)?\s*[:=]?\s*\\?["']?${patternOf(label)}`,
    'iu',
  )
}

/** A longer label is recognised by its beginning: patterns have a limit. Characters. */
const longestPattern = 4000

/** The label as a pattern, whose white space may be any, up to where it ends. */
function patternOf(label: string): string {
  // Half of a pair is not a character.
  const beginning = label.slice(0, longestPattern).replace(/[\uD800-\uDBFF]$/, '')
  const words = beginning
    .split(/\s+/)
    .map((word) => word.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&'))
  const end = label.length > longestPattern ? '' : String.raw`(?![\p{L}\p{N}]|[.,]\d)`
  return words.join(String.raw`\s+`) + end
}
