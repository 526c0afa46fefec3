import type { JSX } from 'preact'

import { CopyButton } from '../text/block.tsx'

/** A command of the terminal that can be copied. */
export function CommandToCopy({ text }: { text: string }): JSX.Element {
  const command = `npx ${text}`
  return (
    <p class="command">
      <code>{command}</code> <CopyButton text={command} />
    </p>
  )
}
