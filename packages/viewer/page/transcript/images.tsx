import type { ShownImage } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

/** Thumbnails of the images of a message or result; a click opens one in its full size. */
export function Images({ images }: { images: readonly ShownImage[] }): JSX.Element | null {
  const own = images.filter(({ dataUrl }) => dataUrl !== undefined)
  if (own.length === 0) return null
  return (
    <div class="images">
      {own.map(({ name, dataUrl }, index) => (
        <details key={index}>
          <summary>
            <img src={dataUrl} alt={name} title={name} />
          </summary>
          <img src={dataUrl} alt={name} />
        </details>
      ))}
    </div>
  )
}
