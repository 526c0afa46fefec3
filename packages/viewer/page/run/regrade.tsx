import type { JSX } from 'preact'
import { useState } from 'preact/hooks'

import { useKeys } from '../keys.ts'
import type { Go } from '../route.ts'
import type { Source } from '../source/source.ts'
import { CopyButton } from '../text/block.tsx'

interface RegradeProps {
  readonly source: Source
  /** The run, without a variant. */
  readonly name: string
  readonly go: Go
}

type Grading =
  | { readonly state: 'ready' }
  | { readonly state: 'grading' }
  | { readonly state: 'failed'; readonly problem: string }

/**
 * Grades the stored rollouts again with the grader as its file is now, at no cost, and shows which verdicts changed.
 */
export function Regrade({ source, name, go }: RegradeProps): JSX.Element {
  const [grading, setGrading] = useState<Grading>({ state: 'ready' })
  const start = async (): Promise<void> => {
    if (grading.state === 'grading') return
    setGrading({ state: 'grading' })
    try {
      const answer = await source.regrade?.(name)
      if (answer === undefined) return
      setGrading(answer.state === 'failed' ? answer : { state: 'ready' })
      if (answer.state === 'graded') go({ page: 'compare', run: name, other: answer.name }, 'push')
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error)
      setGrading({ state: 'failed', problem })
    }
  }
  useKeys({ r: () => void start() })
  if (grading.state !== 'failed') {
    return (
      <button
        class="btn"
        aria-busy={grading.state === 'grading'}
        title="Grade the stored rollouts again with the grader as its file is now"
        onClick={() => void start()}
      >
        {grading.state === 'grading' ? 'Grading…' : 'Re-grade'} <kbd>r</kbd>
      </button>
    )
  }
  return (
    <span class="alarm" role="alert">
      Not graded: {grading.problem} <CopyButton text={grading.problem} />{' '}
      <button class="btn" onClick={() => setGrading({ state: 'ready' })}>
        Close
      </button>
    </span>
  )
}
