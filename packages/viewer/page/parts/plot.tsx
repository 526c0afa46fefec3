import type { JSX, RefObject } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'

export type Draw = (canvas: CanvasRenderingContext2D, width: number, height: number) => void

/** An element and its width, which follows the window. Pixels. */
export function useWidth<E extends HTMLElement>(): readonly [RefObject<E | null>, number] {
  const box = useRef<E>(null)
  const [width, setWidth] = useState(0)
  useLayoutEffect(() => {
    if (box.current === null) return undefined
    const observer = new ResizeObserver(([entry]) => setWidth(entry?.contentRect.width ?? 0))
    observer.observe(box.current)
    return () => observer.disconnect()
  }, [])
  return [box, width]
}

/** A canvas in device pixels, drawn again when its width or any of `inputs` changes. */
export function Plot({
  draw,
  inputs,
  label,
}: {
  draw: Draw
  inputs: readonly unknown[]
  label: string
}): JSX.Element {
  const [canvas, width] = useWidth<HTMLCanvasElement>()
  useEffect(() => {
    const context = canvas.current?.getContext('2d')
    if (canvas.current === null || !context) return
    const { clientWidth, clientHeight } = canvas.current
    canvas.current.width = clientWidth * devicePixelRatio
    canvas.current.height = clientHeight * devicePixelRatio
    context.scale(devicePixelRatio, devicePixelRatio)
    draw(context, clientWidth, clientHeight)
  }, [width, ...inputs])
  return (
    <div class="plot">
      <canvas ref={canvas} role="img" aria-label={label} />
    </div>
  )
}
