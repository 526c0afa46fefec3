import { Component, type ComponentChildren } from 'preact'

interface BoundaryProps {
  readonly children: ComponentChildren
  /** What the children show. Another one gets a new try. */
  readonly of: unknown
  /** What stands there when the children cannot be drawn. */
  readonly instead: () => ComponentChildren
}

/** Keeps an error of its children from the rest of the page: what a model wrote may be anything. */
export class Boundary extends Component<BoundaryProps, { hasFailed: boolean }> {
  override state = { hasFailed: false }

  static override getDerivedStateFromError(): { hasFailed: boolean } {
    return { hasFailed: true }
  }

  override componentDidUpdate({ of: before }: BoundaryProps): void {
    if (this.state.hasFailed && before !== this.props.of) this.setState({ hasFailed: false })
  }

  override render({ children, instead }: BoundaryProps): ComponentChildren {
    return this.state.hasFailed ? instead() : children
  }
}

/** Any value as the text that it is written as; its own texts where it is nested too deeply for that. */
export function plainText(value: unknown): string {
  if (typeof value === 'string') return value
  try {
    return JSON.stringify(value, null, 2) ?? String(value)
  } catch {
    const fields = Object.entries(value as object) as [string, unknown][]
    return fields.map(([name, part]) => `${name}: ${shallowText(part)}`).join('\n')
  }
}

function shallowText(value: unknown): string {
  return typeof value === 'object' && value !== null ? '… (nested too deeply)' : String(value)
}
